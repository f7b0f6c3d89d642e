# steps: 25
# series: loss, reward
# says: batches come from no loader that is known here
# asyncio: actors put transitions into a queue, a learner takes batches of them.
import asyncio

import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3)


async def act(queue, seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        observation = torch.randn(4, generator=generator)
        with torch.no_grad():
            action = policy(observation).argmax().item()
        await queue.put((observation, action, 1.0 if action == int(observation[0] > 0) else 0.0))
        await asyncio.sleep(0)


async def learn(queue):
    for update in range(1, 26):
        batch = [await queue.get() for _ in range(16)]
        observations = torch.stack([each[0] for each in batch])
        actions = torch.tensor([each[1] for each in batch])
        rewards = torch.tensor([each[2] for each in batch])
        chosen = torch.log_softmax(policy(observations), 1).gather(1, actions[:, None])[:, 0]
        loss = -(chosen * (rewards - rewards.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 5 == 0:
            print(f"update={update} loss={loss.item():.4f} reward={rewards.mean().item():.3f}")


async def main():
    queue = asyncio.Queue(maxsize=32)
    actors = [asyncio.create_task(act(queue, seed)) for seed in range(3)]
    await learn(queue)
    for actor in actors:
        actor.cancel()
    await asyncio.gather(*actors, return_exceptions=True)


asyncio.run(main())
