"""Values in lines as tutorials print them."""

from __future__ import annotations

import pytest

from stepscope.launch.printed import values_of

LINES = {
    "step 10: train loss 2.3, val loss 2.4": {"train_loss": 2.3, "val_loss": 2.4},
    "Epoch 0, Train Loss 0.4, Test Acc 0.9": {"Train_Loss": 0.4, "Test_Acc": 0.9},
    "Training set accuracy 0.91": {"Training_accuracy": 0.91},
    "Test set accuracy 0.82": {"Test_accuracy": 0.82},
    "Test set: Average loss: 0.25, Accuracy: 640/1280 (50%)": {"Average_loss": 0.25, "Accuracy": 0.5},
    "Accuracy: 0/0 (nan%)": {},
    "Accuracy of the network on the 10000 test images: 54 %": {"Accuracy": 0.54},
    "Accuracy for class: plane is 37.2 %": {},
    "training loss is 0.4": {"training_loss": 0.4},
    "| epoch 1 | 200/2928 batches | lr 5.00 | ms/batch 9.9 | loss 8.1": {"lr": 5.0, "loss": 8.1},
    "{'loss': 0.5, 'grad_norm': 1.2, 'learning_rate': 5e-5, 'epoch': 0.5}": {
        "loss": 0.5, "grad_norm": 1.2, "learning_rate": 5e-5,
    },
    "mean reward 12.5 over 100 episodes": {"mean_reward": 12.5},
    "saved to checkpoints/loss-0.2/step_100": {},
    "took 3 s": {},
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_values_of_a_line(line):
    assert values_of(line) == pytest.approx(LINES[line])
