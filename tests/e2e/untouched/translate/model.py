from torch import nn


class Seq2Seq(nn.Module):
    def __init__(self, vocab=24, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, source, target):
        _, hidden = self.encoder(self.embed(source))
        output, _ = self.decoder(self.embed(target), hidden)
        return self.out(output)
