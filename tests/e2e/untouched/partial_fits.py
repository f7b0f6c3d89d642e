# lacks: the steps and their times
# series: accuracy, log_loss
# points: accuracy 0 1 2 3 4 5 6 7
# scikit-learn, one pass of the data at a time, with a dict printed after each.
import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import accuracy_score, log_loss

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8))
y = (x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=600) * 0.3 > 0).astype(int)
model = SGDClassifier(loss="log_loss", random_state=0)
for epoch in range(8):
    order = rng.permutation(500)
    for part in np.array_split(order, 10):
        model.partial_fit(x[part], y[part], classes=[0, 1])
    probabilities = model.predict_proba(x[500:])
    print(
        {
            "epoch": epoch,
            "accuracy": accuracy_score(y[500:], probabilities.argmax(1)),
            "log_loss": log_loss(y[500:], probabilities),
        }
    )
