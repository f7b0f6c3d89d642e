"""Calls of a SummaryWriter with random arguments, each with a tag of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

KINDS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
TENSORS = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16,
    torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Arguments:
    """Draws arguments.

    Args:
        seed: The same seed draws the same calls.
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.count = np.random.default_rng(seed), 0
        self.untagged = False  # of one embedding: a second one would replace it

    def one(self, *choices: Any) -> Any:
        found = choices[int(self.rng.integers(len(choices)))]
        return found() if callable(found) else found

    def chance(self, of: float) -> bool:
        return bool(self.rng.random() < of)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def tag(self) -> str:
        self.count += 1
        odd = (
            "a",
            "loss",
            "/",
            "//x",
            " b",
            "ä",
            "漢",
            "a:b",
            "x[0]",
            "%",
            "..",
            "-",
            "_",
            "é~",
            "#",
            "🙂",
            "\\",
        )
        words = "".join(self.one(*odd) for _ in range(self.whole(0, 4)))
        return f"{words}{self.count}"

    def array(self, shape: Any, *, kinds: Any = KINDS, scale: float = 1.0, low: float = 0.0) -> np.ndarray:
        kind = self.one(*kinds)
        with np.errstate(all="ignore"):
            if kind == "bool":
                return self.rng.random(shape) < 0.5
            if np.dtype(kind).kind in "iu":
                info = np.iinfo(kind)
                return self.rng.integers(max(info.min, -300), min(info.max, 300), shape).astype(kind)
            return (self.rng.random(shape) * scale + low).astype(kind)

    def either(self, array: Any) -> Any:
        """The array, or the tensor of it, which may be a view."""
        if self.chance(0.5):
            return array
        found = torch.from_numpy(np.ascontiguousarray(array))
        return found.requires_grad_() if found.is_floating_point() and self.chance(0.2) else found

    def number(self) -> Any:
        value = self.one(
            0.0, -0.0, 1e-45, 1e39, -1e39, float("inf"), float("nan"), lambda: float(self.rng.normal())
        )
        whole = self.one(0, 1, -7, 2**31, 2**53 + 1, 255)
        with np.errstate(all="ignore"):
            return self.one(
                value, whole, True, False,
                lambda: np.float32(value), lambda: np.float16(value), lambda: np.float64(value),
                lambda: np.int64(whole), lambda: np.array(value), lambda: np.array([value]),
                lambda: np.array([[whole]]), lambda: torch.tensor(value), lambda: torch.tensor([value]),
                lambda: torch.tensor(value, dtype=torch.float64), lambda: torch.tensor([[[whole]]]),
                lambda: torch.tensor(value, dtype=torch.float16), lambda: torch.tensor(True),
                lambda: np.bool_(True), lambda: np.uint8(200),
                lambda: torch.tensor(value, requires_grad=True),
            )  # fmt: skip

    def when(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.chance(0.8):
            found["global_step"] = self.one(
                None, 0, 5, -3, 2**40, 7.9, "12", True,
                lambda: np.int64(8), lambda: np.int32(4), lambda: np.float32(2.5), lambda: torch.tensor(9),
                lambda: np.array(3), lambda: np.uint8(255),
            )  # fmt: skip
        if self.chance(0.3):
            found["walltime"] = self.one(1234.5, 0, 99, lambda: np.float64(77.25))
        return found

    # --- one method each ------------------------------------------------------------------------------

    def scalar(self) -> Call:
        options = self.when()
        options |= self.one({}, {}, {"new_style": True}, {"new_style": True, "double_precision": True})
        return "add_scalar", (self.tag(), self.number()), options

    def scalars(self) -> Call:
        names = ["a", "b/c", "d e", "_"][: self.whole(0, 4)]
        return "add_scalars", (self.tag(), {name: self.number() for name in names}), self.when()

    def tensor(self) -> Call:
        shape = self.one((), (3,), (0,), (2, 3), (1, 1, 2, 2))
        kind = self.one(*TENSORS)
        found = torch.from_numpy(np.asarray(self.rng.normal(size=shape) * 50)).to(kind)
        if self.chance(0.3) and found.dim() > 1:
            found = found.transpose(0, 1)
        return "add_tensor", (self.tag(), found), self.when()

    def histogram(self) -> Call:
        shape = self.one((1,), (7,), (30,), (2, 9), (3, 2, 4), (500,), ())
        values = self.array(
            shape, scale=self.one(1.0, 1e-14, 1e6, 1e19, 30.0), low=self.one(0.0, -0.5, -10.0, 1e3)
        )
        if values.dtype.kind == "f" and values.size > 1 and self.chance(0.15):
            values.reshape(-1)[0] = self.one(np.nan, np.inf, -np.inf)
        bins = self.one(
            "tensorflow", "tensorflow", "auto", "fd", "doane", "sturges", "sqrt", "rice", "scott", 1, 5, 64,
            lambda: [-1.0, 0.0, 0.25, 0.5, 1.0], lambda: np.linspace(-3, 3, 13), lambda: (0, 1, 2, 300),
        )  # fmt: skip
        options = {"bins": bins} if self.chance(0.8) else {}
        if self.chance(0.3):
            options["max_bins"] = self.one(1, 2, 5, 30, 1000)
        return "add_histogram", (self.tag(), self.either(values)), self.when() | options

    def histogram_raw(self) -> Call:
        size = self.whole(0, 6)
        limits, counts = (
            np.sort(self.rng.normal(size=size)),
            self.array(size, kinds=("int64", "float32", "uint8")),
        )
        several = self.one((limits.tolist(), counts.tolist()), (limits, counts),
                           lambda: (torch.from_numpy(limits), torch.from_numpy(counts)))  # fmt: skip
        numbers = [self.one(0, 2.5, -1.0, lambda: np.float32(3), lambda: np.int64(4)) for _ in range(5)]
        return "add_histogram_raw", (self.tag(), *numbers, *several), self.when()

    def picture(self, order: str) -> np.ndarray:
        sizes = {
            "N": self.one(1, 2, 8, 9, 17),
            "C": self.one(1, 3, 3, 4),
            "H": self.whole(1, 9),
            "W": self.whole(1, 9),
        }
        return self.array([sizes[name] for name in order])

    def order(self, letters: str) -> str:
        found = "".join(letters[place] for place in self.rng.permutation(len(letters)))
        return self.one(letters, found, found.lower())

    def image(self) -> Call:
        order = self.order(self.one("CHW", "CHW", "HW", "NCHW"))
        return (
            "add_image",
            (self.tag(), self.either(self.picture(order.upper()))),
            self.when() | {"dataformats": order},
        )

    def images(self) -> Call:
        order = self.order(self.one("NCHW", "NCHW", "CHW"))
        return (
            "add_images",
            (self.tag(), self.either(self.picture(order.upper()))),
            self.when() | {"dataformats": order},
        )

    def image_with_boxes(self) -> Call:
        order = self.one("CHW", "HWC", "HW")
        sizes = {"C": self.one(1, 3, 3), "H": self.whole(20, 50), "W": self.whole(20, 50)}
        picture = self.array([sizes[name] for name in order])
        count = self.whole(1, 4)
        corners = np.sort(self.rng.random((count, 2, 2)) * 40, 1).reshape(count, 4)
        boxes = corners.astype(self.one("float64", "float32", "int64"))
        labels = self.one(
            None, ["x"] * count, ["cat", "a longer one", "ä", ""][:count], ["one too many"] * (count + 1)
        )
        options = self.when() | {"dataformats": order, "labels": labels}
        if self.chance(0.4):
            options["rescale"] = self.one(1, 2, 0.5, 1.3)
        return "add_image_with_boxes", (self.tag(), self.either(picture), self.either(boxes)), options

    def audio(self) -> Call:
        length, scale = self.whole(1, 400), self.one(1.0, 2.0, 5.0)
        kinds = ("float64", "float32", "float16", "int16", "int64")
        shape = self.one((length,), (1, length), (length, 1))
        sound = self.array(shape, kinds=kinds, scale=scale, low=-scale / 2)
        options = self.when() | (
            {"sample_rate": self.one(8000, 44100, 22050, 16000)} if self.chance(0.6) else {}
        )
        return "add_audio", (self.tag(), self.either(sound)), options

    def text(self) -> Call:
        words = self.one(
            "", "*a*", "ä 漢 🙂", "| a | b |\n|---|---|\n| 1 | 2 |", "x" * 5000, "\x00 \t", "a\r\nb"
        )
        return "add_text", (self.tag(), words), self.when()

    def pr_curve(self) -> Call:
        shape = self.one((1,), (50,), (5, 4), (200,))
        labels = self.rng.integers(0, 2, shape).astype(
            self.one("int64", "bool", "float32", "float64", "uint8", "int32")
        )
        guesses = self.array(
            shape,
            kinds=("float64", "float32"),
            scale=self.one(1.0, 1.0, 1.0, 1.4),
            low=self.one(0.0, 0.0, -0.2),
        )
        options = self.when()
        if self.chance(0.5):
            options["num_thresholds"] = self.one(2, 3, 10, 127, 128, 300)
        if self.chance(0.4):
            options["weights"] = self.one(
                0.5, lambda: self.rng.random(shape), lambda: self.rng.integers(0, 3, shape)
            )
        return "add_pr_curve", (self.tag(), self.either(labels), self.either(guesses)), options

    def pr_curve_raw(self) -> Call:
        size = self.one(1, 5, 127)
        rows = [self.array((size,), kinds=("float64", "float32", "int64")) for _ in range(6)]
        rows = self.one(
            lambda: rows, lambda: [row.tolist() for row in rows], lambda: [torch.from_numpy(r) for r in rows]
        )
        options = self.when() | self.one(
            {}, {"num_thresholds": size}, {"num_thresholds": 500}, {"num_thresholds": 0}
        )
        return "add_pr_curve_raw", (self.tag(), *rows), options | self.one({}, {"weights": 2.0})

    def mesh(self) -> Call:
        batch, points = self.whole(1, 2), self.whole(1, 6)
        tensor = torch.from_numpy
        vertices = tensor(
            self.array((batch, points, 3), kinds=("float64", "float32", "float16", "int64"), scale=9.0)
        )
        options = self.when()
        if self.chance(0.5):
            options["colors"] = tensor(self.array((batch, points, 3), kinds=("uint8", "int64", "int32")))
        if self.chance(0.5):
            options["faces"] = tensor(
                self.rng.integers(0, points, (batch, self.whole(1, 4), 3)).astype(self.one("int64", "int32"))
            )
        if self.chance(0.4):
            options["config_dict"] = self.one(
                {}, {"camera": {"cls": "P", "fov": 75}}, {"b": [1, None, "ä"], "a": 0.5}
            )
        return "add_mesh", (self.tag(), vertices), options

    def layout(self) -> Call:
        tags = ["loss", "acc.*", "ä/b", self.tag()]
        charts = {
            "lines": ["Multiline", tags[: self.whole(0, 4)]], "band": ["Margin", ("a", "b", "c")],
            "other": self.one(["Multiline", ["x"]], ("Multiline", ("y",)), ["Whatever", ["z"]]),
        }  # fmt: skip
        kept = {name: charts[name] for name in charts if self.chance(0.7)}
        return self.one(
            lambda: ("add_custom_scalars", ({"c": kept, "d ä": {}},), {}),
            lambda: (
                "add_custom_scalars_multilinechart",
                (tags[: self.whole(0, 4)],),
                self.one({}, {"category": "k"}, {"title": "t"}),
            ),
            lambda: (
                "add_custom_scalars_marginchart",
                (["a", "b", "c"],),
                self.one({}, {"category": "k", "title": "t"}),
            ),
        )

    def hparams(self) -> Call:
        values = (
            0.1, 3, True, False, "adam", "", None, 2**60, -0.0, float("nan"), float("inf"), "ä",
            lambda: torch.tensor(0.5), lambda: torch.tensor([0.5]),
            lambda: torch.tensor(3),
        )  # fmt: skip
        given = {name: self.one(*values) for name in ("lr", "n", "opt ä", "z/y", "b")[: self.whole(0, 5)]}
        metrics = {self.tag(): self.number() for _ in range(self.whole(0, 3))}
        options: dict[str, Any] = {"run_name": f"trial {self.tag()}".replace("/", "_")}
        if self.chance(0.4):
            options["global_step"] = self.one(None, 0, 5, lambda: np.int64(3))
        if self.chance(0.4):
            domains = {float: [0.1, 0.2, 1], int: [3, 4.5], bool: [True, False], str: ["adam", "b"]}
            options["hparam_domain_discrete"] = {
                n: domains[type(v)] for n, v in given.items() if type(v) in domains
            }
        return "add_hparams", (given, metrics), options

    def figure(self) -> Call:
        from matplotlib.figure import Figure

        made = []
        for _ in range(self.whole(1, 2)):
            figure = Figure(figsize=(1.5, 1), dpi=50)
            figure.subplots().plot(self.rng.random(4))
            figure.patch.set_alpha(0.5 if self.chance(0.3) else 1.0)
            made.append(figure)
        figures = made if self.chance(0.3) else made[0]
        return "add_figure", (self.tag(), figures), self.when() | {"close": self.chance(0.5)}

    def embedding(self) -> Call:
        points, columns = self.one(*range(1, 8)), self.whole(1, 3)
        matrix = self.either(self.array((points, self.whole(1, 4)), kinds=("float64", "float32", "int64")))
        options: dict[str, Any] = {"tag": self.tag()} if self.untagged or self.chance(0.8) else {}
        self.untagged = self.untagged or not options
        if self.chance(0.7):
            options["global_step"] = self.one(None, 0, 5, 123456, "7")
        words = ["a", "b c", "ä", 5, 0.5, "x"]
        if self.chance(0.4):
            options["metadata"] = [self.one(*words) for _ in range(points)]
        elif self.chance(0.4):
            options["metadata"] = [[self.one(*words) for _ in range(columns)] for _ in range(points)]
            options["metadata_header"] = [f"column {number}" for number in range(columns)]
        if self.chance(0.4):
            options["label_img"] = torch.from_numpy(
                self.array((points, self.one(1, 3), 4, 4), kinds=("float32",))
            )
        return "add_embedding", (matrix,), options

    def calls(self, number: int) -> Iterator[Call]:
        makers: list[Callable[[], Call]] = [
            self.scalar, self.scalar, self.scalars, self.histogram, self.histogram, self.histogram_raw,
            self.image, self.images, self.image_with_boxes, self.audio, self.text, self.pr_curve,
            self.pr_curve_raw, self.mesh, self.layout, self.hparams, self.figure, self.embedding,
            self.tensor,
        ]  # fmt: skip
        for _ in range(number):
            yield self.one(*[lambda make=make: make() for make in makers])
