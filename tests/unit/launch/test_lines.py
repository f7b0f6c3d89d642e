"""Values in lines as tutorials print them."""

import json
import math

import pytest

from stepscope.launch import lines
from stepscope.launch.lines import values_of

LINES = {
    "step 10: train loss 2.3, val loss 2.4": {"train_loss": 2.3, "val_loss": 2.4},
    "Epoch 0, Train Loss 0.4, Test Acc 0.9": {"Train_Loss": 0.4, "Test_Acc": 0.9},
    "Training set accuracy 0.91": {"Training_accuracy": 0.91},
    "Test set accuracy 0.82": {"Test_accuracy": 0.82},
    "Test set: Average loss: 0.25, Accuracy: 640/1280 (50%)": {
        "Test/Average_loss": 0.25, "Test/Accuracy": 0.5,
    },
    "Accuracy: 0/0 (nan%)": {},
    "Accuracy of the network on the 10000 test images: 54 %": {"Accuracy": 0.54},
    "Accuracy for class: plane is 37.2 %": {},
    "training loss is 0.4": {"training_loss": 0.4},
    "Epoch 3 loss: 17.1 (recon 16.6, KL 0.1)": {"loss": 17.1, "recon": 16.6, "KL": 0.1},
    "HR@10 0.53 NDCG@10 0.31": {"HR@10": 0.53, "NDCG@10": 0.31},
    "NLL 1.2 / ECE 0.03": {"NLL": 1.2, "ECE": 0.03},
    "loss 0.2 error 404": {"loss": 0.2},
    "loss 0.2 kl 0.3 kl 0.4": {"loss": 0.2},
    "policy_loss=0.3 entropy=1.2": {"policy_loss": 0.3, "entropy": 1.2},
    "| epoch 1 | 200/2928 batches | lr 5.00 | ms/batch 9.9 | loss 8.1": {"lr": 5.0, "loss": 8.1},
    "{'loss': 0.5, 'grad_norm': 1.2, 'learning_rate': 5e-5, 'epoch': 0.5}": {
        "loss": 0.5, "grad_norm": 1.2, "learning_rate": 5e-5,
    },
    "mean reward 12.5 over 100 episodes": {"mean_reward": 12.5},
    "saved to checkpoints/loss-0.2/step_100": {},
    "took 3 s": {},
    "Last reward: 12.00\tAverage reward: 11.20": {"Last_reward": 12.0, "Average_reward": 11.2},
    "Episode 10\tLast reward: 12.00\tAverage reward: 11.20": {"Last_reward": 12.0, "Average_reward": 11.2},
    "Epoch [1/5], Step [100/600], Loss: 0.3": {"Loss": 0.3},
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.25": {"Train/Loss": 0.25},
    "{'loss': 0.4, 'epoch': 1.0}": {"loss": 0.4},
    "iter 100: loss 2.5, time 120ms, mfu 12%": {"loss": 2.5},
    "[1, 2000] loss: 2.2": {"loss": 2.2},
    "step=100 loss=0.5": {"loss": 0.5},
    "\rEpoch 3:  45%|####5     | 45/100 [00:10<00:12, 4.50it/s, loss=0.345, acc=0.91]": {
        "loss": 0.345, "acc": 0.91,
    },
    "[12:03:11] INFO     epoch 2 train_loss=0.51 val_loss=0.62                 train.py:88": {
        "train_loss": 0.51, "val_loss": 0.62,
    },
    "2024-05-01 12:00:01,123 - trainer - INFO - Loss: 0.5123 lr: 1.0e-04": {"Loss": 0.5123, "lr": 0.0001},
    "{\"step\": 100, \"train/loss\": 0.5, \"lr\": 0.0001, \"time\": 12.5}": {"train/loss": 0.5, "lr": 0.0001},
    "Epoch: [0][  10/5005]\tTime  0.123 ( 0.456)\tData  0.001 ( 0.002)\t"
    "Loss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.10)\tAcc@5   0.78 (  0.55)": {
        "Loss": 6.9, "Acc@1": 0.0, "Acc@5": 0.78,
    },
    "[0/5][50/1583]\tLoss_D: 1.2345\tLoss_G: 3.4567\tD(x): 0.6543\tD(G(z)): 0.3210 / 0.0500": {
        "Loss_D": 1.2345, "Loss_G": 3.4567,
    },
    "loss: 2.303494  [   64/60000]": {"loss": 2.303494},
    "Test Error: \n Accuracy: 50.9%, Avg loss: 1.100000 \n": {"Test/Accuracy": 0.509, "Test/Avg_loss": 1.1},
    "tensor(0.3254, grad_fn=<NllLossBackward0>)": {},
    "loss: tensor(0.3254, grad_fn=<NllLossBackward0>)": {"loss": 0.3254},
    "{'eval_loss': np.float64(0.41), 'eval_f1': np.float64(0.8)}": {"eval_loss": 0.41, "eval_f1": 0.8},
    "eta: 0:10:00  iter: 19  total_loss: 2.31  loss_cls: 1.1  time: 0.51  lr: 0.0001  max_mem: 2000M": {
        "total_loss": 2.31, "loss_cls": 1.1, "lr": 0.0001,
    },
    "[10]\ttrain-rmse:0.51234\teval-rmse:0.61234": {"train-rmse": 0.51234, "eval-rmse": 0.61234},
    "Epoch 5 | Train loss: 0.41 | Val loss: 0.52 | Val acc: 81.20%": {
        "Train_loss": 0.41, "Val_loss": 0.52, "Val_acc": 0.812,
    },
    "Episode 20  Average Score: 15.32": {"Average_Score": 15.32},
    "Iteration 300, MSE = 0.0213": {"MSE": 0.0213},
    "global_step=2048, episodic_return=[22.]": {"episodic_return": 22.0},
    "Learning rate: 0.0005 - Gradient norm: 1.37": {"Learning_rate": 0.0005, "Gradient_norm": 1.37},
    "Validation accuracy after epoch 3: 0.85": {"Validation_accuracy": 0.85},
    "Epoch [0/2] Batch [5/10] InfoNCE: 2.785, temp: 1.00": {"InfoNCE": 2.785},
    "epoch 4 loss nan": {"loss": float("nan")},
    "Loss at step 40 is -1.25e-3": {"Loss": -0.00125},
    "Train: loss 0.51, acc 0.82 | Val: loss 0.62, acc 0.79": {
        "Train/loss": 0.51, "Train/acc": 0.82, "Val/loss": 0.62, "Val/acc": 0.79,
    },
    "Epoch 002/100 | train 0.5123 | val 0.6234": {},
    "Loss - train: 0.5, val: 0.6": {"train/Loss": 0.5, "val/Loss": 0.6},
    "Epoch: 3, Loss: 0.5432, Train: 0.8912, Val: 0.7820, Test: 0.7910": {"Loss": 0.5432},
    "Ep 12 reward -200 eps 0.95": {"reward": -200.0},
    "Epoch 1/10 - loss=0.234 - accuracy=91.2% - 12.3s": {"loss": 0.234, "accuracy": 0.912},
    "INFO:root:step 400 | loss 1.234 | grad_norm 0.98 | tok/s 12345": {"loss": 1.234, "grad_norm": 0.98},
    "  batch 300 loss: 0.4217": {"loss": 0.4217},
    "LOSS train 0.512 valid 0.634": {"train/LOSS": 0.512, "valid/LOSS": 0.634},
    "Finished epoch 3 with validation loss: 0.33": {"validation_loss": 0.33},
    "perplexity = 31.5 (best 30.2)": {"perplexity": 31.5},
    "|    ep_rew_mean     | 22.5     |": {"ep_rew_mean": 22.5},
    "Epoch 10: train_loss=2.1e-01, val_f1=.87, lr=3e-5": {"train_loss": 0.21, "val_f1": 0.87, "lr": 3e-05},
    "Running loss after 200 mini-batches: 1.532": {"Running_loss": 1.532},
    "epoch 3, MAE 2.31, RMSE 3.12": {"MAE": 2.31, "RMSE": 3.12},
    "step 5: kl_loss: 0.01 recon_loss: 0.7 total loss: 0.71": {
        "kl_loss": 0.01, "recon_loss": 0.7, "total_loss": 0.71,
    },
    "Training Accuracy for epoch 2 is 88.5%": {"Training_Accuracy": 0.885},
    "Iter 10 loss:0.33 acc:0.8 time:0.12s": {"loss": 0.33, "acc": 0.8},
    "epoch 3 cost 0.25": {"cost": 0.25},
    "Cost after iteration 100: 0.34": {"Cost": 0.34},
    "Epoch: 0001 cost= 0.1234": {"cost": 0.1234},
    "cost: 3.50 USD, loss: 0.5": {"loss": 0.5},
    "2024-05-01 12:00:01.123 | INFO     | __main__:train:12 - step 100 loss 0.34": {"loss": 0.34},
    "2024-05-01 12:00:01.123 | INFO     | __main__:<module>:12 - step 100 loss 0.34": {"loss": 0.34},
    "2024-05-01T12:00:01Z [info     ] step                loss=0.34 lr=0.001 step=10": {
        "loss": 0.34, "lr": 0.001,
    },
    "Epoch[0] Batch [50]\tSpeed: 1234.5 samples/sec accuracy=0.52": {"accuracy": 0.52},
    "Training loss (for 1 batch) at step 200: 0.5123": {"Training_loss": 0.5123},
    "Loss (over 100 batches): 0.25, accuracy (on test): 0.5": {"Loss": 0.25, "accuracy": 0.5},
    "epoch 2 | loss 3.25 | ppl 25.8 | gnorm 1.25": {"loss": 3.25, "ppl": 25.8, "gnorm": 1.25},
    "[INFO] eval: {'accuracy': 0.91, 'f1': 0.88}": {"eval/accuracy": 0.91, "eval/f1": 0.88},
}  # fmt: skip
PROSE = (
    "ndcg 0.31 of release 2.0",
    "an error 0.5 s after the start",
    "Estimated cost: 3.50 USD",
    "Total cost: 12.3 EUR",
    "Compute cost: 0.12 USD/h",
    "Inference cost: 0.002 s",
    "Epoch[0] Time cost=12.345",
    "Verlust: 0,53 - Genauigkeit: 0,91",
    "loss: 1,25",
    "Training took 3 min 20 s",
    "Using torch 2.11.0 and CUDA 13.0 on 10.0.0.12:8080",
    "Saved checkpoint to runs/2024-05-01/loss-0.2/step_100.pt",
    "Downloading data:  45%|####      | 45.0M/100M [00:10<00:12, 4.50MB/s]",
    "Connected to 192.168.1.7 after 3 attempts",
    "2024-05-01 12:00:01 INFO starting epoch 3 of 10",
    "The loss function is in losses.py:120",
    "HTTP error: 404 for https://example.org/map/3",
    "Loading map 3 of 12",
    "Process exited, return 1",
    "Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    "val_loss did not improve from 0.40000",
    "train samples: 60000, test samples: 10000",
    "Model has 1.2M parameters in 12 layers",
    "Early stopping after 5 epochs without a better loss",
    "GPU memory: 12.5 GB of 80 GB used, temperature 65 C",
    "version 1.4.2 fixes the accuracy of 3.1 and the loss of 2.0.1",
    "The learning rate was divided by 10 at 12:30",
    "Elapsed: 0:01:23.4, ETA 00:12:00, 1250.5 tokens/s",
    "Lowering the learning rate from 0.1 to 0.01",
    "The accuracy target is 95% by 2027-01-01",
    "Error 13: permission denied",
    "error: process 1234 exited with code 1",
    "Returning 0.5 s later",
    "Return code 0",
    "Reading map tiles 4/16",
    "precision 16 enabled",
    "CPU: 45.5% RAM: 12.1%",
    "pip 24.0 from /usr/lib/python3.11/site-packages/pip",
    "loss.backward() at 0x7f3a2c took 0.2 s",
    "the loss (at 3 points) took 1.5 s",
    "Recall that batch 5 was skipped",
    "score saved to out/score-0.91.json",
    "Rewards are clipped to [-1, 1]",
)


@pytest.mark.parametrize("line", LINES)
def test_the_values_of_a_line(line):
    assert values_of(line) == pytest.approx(LINES[line], nan_ok=True)


@pytest.mark.parametrize("line", PROSE)
def test_prose_has_no_values(line):
    assert values_of(line) == {}


def test_lines_that_differ_in_digits_alone_keep_their_own_names_and_numbers():
    assert values_of("loss/1: 10.25 f1: 0.5") == {"loss/1": 10.25, "f1": 0.5}
    assert values_of("loss/2: 7.125 f1: 1e3") == {"loss/2": 7.125, "f1": 1000.0}
    assert values_of("Accuracy: 3/4") == {"Accuracy": 0.75}
    assert values_of("Accuracy: 0/0") == {}
    assert values_of("reward: -12.5") == {"reward": -12.5}


def test_the_rows_of_a_table_have_the_names_of_its_head():
    table = lines.Table()
    rows = {
        "3 0.5 0.6 00:12": {},
        "epoch     train_loss  valid_loss  time": {},
        "-----  ------------  ------------  -----": {},
        "0         0.512345    0.612345    00:12": {"train_loss": 0.512345, "valid_loss": 0.612345},
        "saved to runs/3 after 12": {},
        "1         0.4         nan         00:11": {"train_loss": 0.4, "valid_loss": math.nan},
        "2         0.3         0.2": {},
        "| epoch | train_loss | accuracy |": {},
        "| 3 | 0.25 | 0.75 |": {"train_loss": 0.25, "accuracy": 0.75},
    }
    for line, values in rows.items():
        assert table.values_of(line) == pytest.approx(values, nan_ok=True)


@pytest.mark.parametrize("comma", [",", ", ", ";"])
def test_a_table_may_be_written_as_a_file_is(comma):
    table = lines.Table()
    assert table.values_of(comma.join(("epoch", "train loss", "val_acc", "time"))) == {}
    row = comma.join(("3", "0.5", "0.75", "1.5"))
    assert table.values_of(row) == {"train_loss": 0.5, "val_acc": 0.75}
    assert table.place_of(row) == (3, None, True, True)
    assert table.values_of("3 0.5 0.75 1.5") == {}
    assert table.values_of("epoch loss") == {}
    assert table.values_of("1,5") == {}  # one number or two
    assert table.values_of("1 0.5") == {"loss": 0.5}


def test_a_sentence_about_metrics_begins_no_table():
    table = lines.Table()
    assert table.values_of("loss, accuracy, and so on") == table.values_of("1, 2, 3") == {}
    assert table.values_of("the accuracy falls") == {}
    assert table.values_of("1 2 3") == {}


def test_a_long_record_in_json_has_the_values_of_its_numbers_and_texts():
    """As Loguru serializes: the text has the message once more, and what was bound lies in ``extra``."""
    record = {
        "elapsed": {"repr": "0:00:02.5", "seconds": 2.5}, "exception": None, "extra": {"val_loss": 0.25},
        "file": {"name": "train.py", "path": "/home/a/" + "long/" * 60 + "train.py"}, "function": "train",
        "level": {"icon": "i", "name": "INFO", "no": 20}, "line": 12, "message": "step 100 loss 0.34",
        "process": {"id": 17, "name": "MainProcess"}, "time": {"timestamp": 1714564801.5},
    }  # fmt: skip
    text = "2024-05-01 12:00:01.123 | INFO     | __main__:train:12 - step 100 loss 0.34\n"
    line = json.dumps({"text": text, "record": record}) + "\n"
    assert len(line) > lines.MAX_LINE
    assert values_of(line) == {"loss": 0.34, "val_loss": 0.25}
    record["extra"]["loss"] = 0.5  # which of the two is meant is unknown
    assert values_of(json.dumps({"text": text, "record": record})) == {"val_loss": 0.25}
    assert values_of("{" + "loss 0.5, " * 60) == {}
    assert values_of(json.dumps({"loss": 0.5, "text": "a" * 30_000})) == {}


def test_a_name_that_occurs_twice_has_no_value():
    assert values_of("loss 0.5, loss 0.6, acc 0.1") == {"acc": 0.1}


PLACES = {
    "Epoch [1/5], Step [10/100], Loss: 0.3": (1, 10, True),
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.25": (1, 640, True),
    "[0/5][50/1583]\tLoss_D: 1.2": (0, 50, False),
    "[1, 2000] loss: 2.2": (1, 2000, False),
    "[10]\ttrain-rmse:0.5": (None, 10, False),
    "0:\tlearn: 0.64\ttotal: 50ms": (None, 0, False),
    "-- Epoch 1": (1, None, True),
    "Cost after iteration 100: 0.34": (None, 100, True),
    '{"step": 100, "train/loss": 0.5}': (None, 100, True),
    "global_step=2048, episodic_return=[22.]": (None, 2048, True),
    "Epoch: [0][  10/5005]\tTime  0.123": (0, 10, True),
    "| epoch 1 | 200/2928 batches | lr 5.00": (1, 200, True),
    "loss: 2.303494  [   64/60000]": (None, 64, False),
    "Validation accuracy after epoch 3: 0.85": (3, None, True),
    "{'loss': 0.4, 'epoch': 1.5}": None,
    "step 50% done": None,
    "test_step 3": None,
    "Fold 3 accuracy 0.9": None,
    "[12:03:11] loss 0.3": None,
    "2024-05-01 12:00:01,123 loss 0.3": None,
}


@pytest.mark.parametrize("line", PLACES)
def test_how_far_a_training_is(line):
    place = lines.place_of(line)
    assert (place and place[:3]) == PLACES[line]


@pytest.mark.parametrize(
    ("line", "alone"), [("Epoch 3/10", True), ("step 3 of the build took 0.5 s", False), ("[3] x", False)]
)
def test_a_heading_has_no_other_number(line, alone):
    assert lines.place_of(line).alone == alone


def test_a_table_may_count_steps_and_name_columns_in_several_words():
    table = lines.Table()
    assert table.values_of("      Iter       Train Loss   Remaining Time ") == {}
    row = "         3           0.9953            0.11s"
    assert table.values_of(row) == {"Train_Loss": 0.9953}
    assert table.place_of(row).fine == 3


def test_a_possessive_is_no_part_of_a_name():
    assert values_of("[1]\tvalid_0's auc: 0.9\tvalid_1's auc: 0.8") == {
        "valid_0_auc": 0.9,
        "valid_1_auc": 0.8,
    }


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("It: 10, Loss: 8.348e-01, PDE: 8.012e+00, BC: 1.234e-02, Time: 0.12", "Loss PDE BC"),
        ("step 3 | loss: 0.3412 | IC: -0.3000 | Total: 0.4412", "loss IC"),
        ("Loss: 0.34, BC: 0.3412, STEP: 3, N: 0.12, GPU: 0.34, ETA: 1.50, MEM: 0.50, FPS: 9.87", "Loss"),
        ("PDE: 0.3 BC: 0.02", ""),
        ("Accuracy: 0.34, PDE: 0.12", "Accuracy"),
        ("Loss: 0.34 PDE 0.12 and the PDE: 0.12", "Loss"),
    ],
)
def test_abbreviations_in_the_format_of_a_loss_are_its_parts(line, names):
    assert list(values_of(line)) == names.split()
