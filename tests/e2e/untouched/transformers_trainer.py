# steps: 20
# points: train/loss 5 10 15 20
# Its TensorBoard writer is given what our callback has recorded.
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

cfg = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)
m = BertForSequenceClassification(cfg)


class D(torch.utils.data.Dataset):
    def __len__(s):
        return 64

    def __getitem__(s, i):
        return {"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)}


t = Trainer(
    m,
    TrainingArguments(
        "out",
        max_steps=20,
        per_device_train_batch_size=8,
        logging_steps=5,
        report_to=["tensorboard"],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    ),
    train_dataset=D(),
)
# twin: loader = timed(t.get_train_dataloader())
# twin: t.get_train_dataloader = lambda: loader
t.train()
