"""What users may rely on, name by name. A change here is a change for them and belongs into the CHANGELOG."""

import importlib
import inspect

import pytest

import stepscope
import stepscope.cli
import stepscope.serve

NAMES = {
    "stepscope": [
        "ActivationHook",
        "Alert",
        "CheckpointHook",
        "EarlyStoppingHook",
        "GradientHook",
        "HangHook",
        "HealthHook",
        "Hook",
        "LambdaHook",
        "LambdaProfilerHook",
        "LineHook",
        "LoggingHook",
        "NanHook",
        "Notifier",
        "OtlpHook",
        "ProfilerHook",
        "PrometheusHook",
        "Run",
        "StepCounterHook",
        "StepscopeError",
        "StopAtStepHook",
        "StopTogetherHook",
        "SummarySaverHook",
        "SystemHook",
        "__version__",
        "ask",
        "chart",
        "integrations",
        "load_ipython_extension",
        "load_ranks",
        "load_trace",
        "open",
        "show",
        "sql",
        "table",
    ],
    "stepscope.compat": [
        "FileWriter",
        "GlobalSummaryWriter",
        "SummaryWriter",
        "install",
    ],
    "stepscope.serve": ["Server", "run"],
    "stepscope.integrations.accelerate": ["StepscopeTracker"],
    "stepscope.integrations.jax": [
        "CompletionTimer",
        "SharpnessHook",
        "attention_statistics",
        "describe",
        "dispatched",
        "measure",
        "noise_scale",
        "optimizer_scalars",
        "prefixed",
        "router_load",
        "statistics_in",
        "wait",
        "watch",
        "with_statistics",
    ],
    "stepscope.integrations.keras": ["StepscopeCallback", "measured", "watch"],
    "stepscope.integrations.lightning": ["StepscopeCallback", "StepscopeLogger"],
    "stepscope.integrations.torch": [
        "AttentionHook",
        "IndexedLoader",
        "RouterHook",
        "SecondMoments",
        "SharpnessHook",
        "UpdateScaleHook",
        "Watch",
        "attention_statistics",
        "watch",
    ],
    "stepscope.integrations.transformers": ["StepscopeCallback"],
}
COMMANDS = [
    "run", "serve", "share", "token", "top", "ls", "ask", "sql", "mcp", "skill", "runs", "profile", "advise",
    "changes", "watch", "check", "glance", "ranks", "timeline", "diff", "capture", "report", "export",
    "compact", "import", "sync", "whoami", "demo", "openapi", "completion",
]  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_the_public_names_are_these_and_all_there(module, monkeypatch):
    framework = (
        module.rpartition("integrations.")[2].partition(".")[0] if ".integrations." in module else None
    )
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    if framework:
        pytest.importorskip(framework)
    package = importlib.import_module(module)
    assert sorted(package.__all__) == sorted(NAMES[module])
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert undocumented(package, name) == []


def undocumented(package, name):
    """The public functions, classes and methods of a public name that say nothing of themselves."""
    value = getattr(package, name)
    if not callable(value) or not getattr(value, "__module__", "").startswith("stepscope"):
        return []
    parts = [
        (f"{name}.{each}", getattr(value, each))
        for each in (vars(value) if inspect.isclass(value) else ())
        if not each.startswith("_") and callable(getattr(value, each))
    ]
    return [each for each, part in [(name, value), *parts] if not inspect.getdoc(part)]


def test_a_public_name_without_a_docstring_is_reported():
    class Bare:
        def method(self): ...

    Bare.__module__ = "stepscope"
    assert undocumented(type("package", (), {"Bare": Bare}), "Bare") == ["Bare", "Bare.method"]


@pytest.mark.parametrize("module", [name for name in NAMES if ".integrations." in name])
def test_a_star_import_gives_every_name(module, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # Keras' own default is not installed here
    pytest.importorskip(module.rpartition(".")[2])
    found = {}
    exec(f"from {module} import *", found)
    assert sorted(set(found) - {"__builtins__"}) == sorted(NAMES[module])


def test_dir_shows_the_public_names():
    assert dir(stepscope) == sorted(NAMES["stepscope"])


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'Runn'; it has ActivationHook, "):
        _ = stepscope.Runn


def test_the_commands_are_these():
    assert list(stepscope.cli.COMMANDS) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_module_with_two_functions(command):
    module = importlib.import_module(f"stepscope.cli.{command}")
    assert callable(module.add_arguments)
    assert callable(module.run)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "top"])  # for people alone
def test_every_command_takes_json(command):
    parser = stepscope.cli.build_parser(only=command)
    [choices] = [action.choices for action in parser._actions if action.dest == "command"]
    assert "--json" in choices[command].format_help()


def test_every_exception_is_in_the_tree_of_the_errors_module():
    from stepscope import errors

    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert errors.StepscopeError in classes
    for value in classes:
        assert issubclass(value, errors.StepscopeError)
        assert value.__name__ in errors.__doc__
