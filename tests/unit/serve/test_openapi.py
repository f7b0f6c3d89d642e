"""The description of the HTTP interface, and the interface held against it with questions made from it."""

import json
import shutil
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from support.servers import application

import stepscope as ss
from stepscope.cli import main
from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.serve.openapi import document
from stepscope.serve.routes import all_routes
from stepscope.serve.types import API

ROOT = Path(__file__).resolve().parents[3]
KINETO = ROOT / "tests" / "data" / "traces" / "kineto" / "v100_rank1of2.json.gz"
DUMPS = ROOT / "tests" / "data" / "traces" / "flight_recorder" / "lock_gil_1st"
TFPROF = ROOT / "tests" / "data" / "tfprof" / "convnet"
ROUTES = all_routes()
QUESTIONS = {"any": 8, "known": 40}
"""Put to each address: with arbitrary texts, and with names of what is there."""
RECORDS = ["image", "hist", "text", "m_VERTEX", "table", "e", "raw", "pr", "loss"]
PROFILE = "a/v100_rank1of2.json.gz"
KNOWN: dict[str, list[Any]] = {
    "run": ["a", "gone"],
    "tag": ["loss", "=loss*2", *RECORDS],
    "x_tag": ["lr", "image"],
    "path": [PROFILE, "tfprof", "dumps", "a/broken.json", "a/deep.json", "../x", ""],
    "a": [PROFILE],
    "b": [PROFILE, "tfprof", "a/broken.json"],
    "steps": ["", "1", "0-99999999999999999999", "3-1", "x"],
    "row": [0, 7, 10**9, -1],
    "writer": ["", "x"],
    "attempt": [0, 1, 2],
    "at": [0, 1],
    "index": [0, 1],
    "point": [0, 3, 4],
    "name": ["e:00000007"],
    "confirm": ["gone"],
    "text": ["=loss", "loss + lr", "(("],
    "hash": ["#/scalars"],
}
"""Values that lead further than an arbitrary one does."""
TAGS = {"graph": ["step 1", "no"], "curve": ["pr", "loss"], "record": RECORDS, "blob": RECORDS}
"""Tags that lead further at one address."""


def record_all(run: ss.Run) -> None:
    """Record one of each kind."""
    run.image("image", np.zeros((4, 4, 3), np.uint8), 3)
    run.histogram("hist", np.array([1.0, np.nan, 2.0]), 3)
    run.text("text", "a *word*", 3)
    run.table("table", [{"a": 1, "b": None}], 3)
    run.pr_curve("pr", [0, 1], [0.2, 0.9], 7, num_thresholds=5)
    run.embedding("e", np.eye(4, dtype="f4"), 7, labels=["a", "b", "c", "d"])
    run.mesh("m", np.zeros((1, 3, 3), "f4"), 7)
    run.tensor("raw", np.array([1.0, np.inf], "f4"), 7)
    nodes = [Node("x", "Input"), Node("y", "Dense", ["x"], [(2, -1)], "cpu", {"units": 3, "name": "n"})]
    run.graph(nodes, costs=[NodeCost("y", 10, 5, 64)], tag="step 1", step=0)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("openapi") / "runs"
    for name in ("a", "b", "gone"):
        for rank in range(2):
            with ss.Run(directory / name, config={"lr": 0.1}, rank=rank, world_size=2) as run:
                for step in run.steps(range(12)):
                    run.scalar("loss", [1.0, float("nan"), float("inf"), -0.5][step % 4], step)
                    run.scalar("lr", 0.1 / (step + 1), step)
                if name == "a" and rank == 0:
                    record_all(run)
    shutil.copy(KINETO, directory / "a" / KINETO.name)
    shutil.copytree(TFPROF, directory / "tfprof")
    shutil.copytree(DUMPS, directory / "dumps")
    (directory / "a" / "deep.json").write_text('{"traceEvents": ' + "[" * 200_000)
    (directory / "a" / "broken.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1e400')
    return directory


@pytest.fixture(scope="module")
def app(log_dir: Path) -> Any:
    with application(log_dir, host="testserver") as app:
        yield app


def offered(schema: Any, names: dict[str, list[str]]) -> None:
    """Have questions name what is there, in the copy of the description that they are made from."""

    def widened(name: str, kind: dict[str, Any], address: str = "") -> dict[str, Any]:
        if kind.get("type") == "array":
            return {**kind, "items": widened(name, kind["items"]), "minItems": 1, "maxItems": 1}
        values = TAGS.get(address, names["tag"]) if name == "tag" else names.get(name)
        wanted = kind.get("type") in ("string", "integer")
        return {"enum": values} if wanted and values is not None else kind

    for path, operations in schema["paths"].items():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                parameter["schema"] = widened(
                    parameter["name"], parameter["schema"], path.removeprefix(f"/{API}")
                )
    for name, message in schema["components"]["schemas"].items():
        if name.endswith(("Request", "Change", "Delete", "Said", "Save")):
            for field, kind in message["properties"].items():
                message["properties"][field] = widened(field, kind)


@pytest.fixture(scope="module", params=QUESTIONS)
def described(request: pytest.FixtureRequest, app: Any) -> tuple[Any, int]:
    import schemathesis

    raw = json.loads(json.dumps(document()))
    if request.param == "known":
        offered(raw, KNOWN)
    schema = schemathesis.openapi.from_dict(raw)
    schema.app = app
    return schema, QUESTIONS[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("address", sorted(ROUTES))
def test_no_question_finds_a_defect_and_answers_are_as_described(
    described: tuple[Any, int], address: str
) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    schema, questions = described
    operation = schema[f"/{API}{address}"][ROUTES[address].method]

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=questions,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def ask(case: Any) -> None:
        case.call_and_validate(checks=checks, headers={"Content-Type": "application/json"})

    ask()


def test_every_route_is_described_and_nothing_else() -> None:
    told = document()
    assert {name: [kind.upper() for kind in path] for name, path in told["paths"].items()} == {
        f"/{API}{address}": [route.method] for address, route in ROUTES.items()
    }
    assert all(each["summary"] for path in told["paths"].values() for each in path.values())


def test_the_description_is_one() -> None:
    pytest.importorskip("openapi_spec_validator").validate(json.loads(json.dumps(document())))


def test_what_a_server_answers_is_what_the_command_prints(app: Any, ask: Any, capsys: Any) -> None:
    assert main(["openapi"]) == 0
    assert json.loads(capsys.readouterr().out) == ask(app, f"/{API}openapi.json").json
