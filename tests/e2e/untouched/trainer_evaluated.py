# steps: 24
# points: eval/loss 6 12 18 24 24
# series: train/loss, train/mean_loss, train/grad_norm, train/learning_rate, train/epoch, train/runtime_s, train/samples_per_second, train/steps_per_second, train/total_flos, eval/loss, eval/accuracy, eval/runtime_s, eval/samples_per_second, eval/steps_per_second
import tempfile

import numpy as np
import torch
from torch import nn
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 12)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.y[i]}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 2))

    def forward(self, x, labels=None):
        logits = self.layers(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}


with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(
        output_dir=out,
        num_train_epochs=3,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=16,
        gradient_accumulation_steps=4,
        eval_strategy="steps",
        eval_steps=6,
        save_strategy="steps",
        save_steps=6,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_steps=3,
        warmup_steps=4,
        lr_scheduler_type="cosine",
        report_to="none",
        use_cpu=True,
        remove_unused_columns=False,
    )
    trainer = Trainer(
        model=Classifier(),
        args=args,
        train_dataset=Rows(256),
        eval_dataset=Rows(64),
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=10)],
    )
    trainer.train()
    print(trainer.evaluate())
