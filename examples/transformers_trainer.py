"""A training with the Hugging Face Trainer: a small language model made here, nothing is downloaded.

``python examples/transformers_trainer.py [RUN_DIRECTORY]``, then ``stepscope serve runs``.
"""

from __future__ import annotations

import sys

import torch
from transformers import Trainer, TrainingArguments
from transformers.models.gpt2 import GPT2Config, GPT2LMHeadModel

from stepscope.integrations.transformers import StepscopeCallback


def sentences(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Sequences that count up from a random number."""
    begins = torch.randint(0, 32, (count,), generator=torch.Generator().manual_seed(seed))
    sequences = [(begin + torch.arange(16)) % 32 for begin in begins]
    return [{"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)} for ids in sequences]


def main(directory: str = "runs/transformers") -> None:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=32, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0,
                        eos_token_id=0, loss_type="ForCausalLM")  # fmt: skip
    arguments = TrainingArguments(
        output_dir=f"{directory}/checkpoints",
        per_device_train_batch_size=16,
        num_train_epochs=5,
        learning_rate=3e-3,
        logging_steps=5,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        GPT2LMHeadModel(config),
        arguments,
        train_dataset=sentences(512, seed=1),
        eval_dataset=sentences(64, seed=2),
        callbacks=[StepscopeCallback(directory)],
    )
    trainer.train()


if __name__ == "__main__":
    main(*sys.argv[1:])
