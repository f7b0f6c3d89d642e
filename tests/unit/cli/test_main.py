import pytest
from support.errors import raises

from stepscope import __version__, cli
from stepscope.errors import LogDirectoryError


def test_version_goes_to_stdout(capsys):
    with raises(SystemExit, code=0):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"stepscope {__version__}\n"


def test_without_a_command_the_commands_are_listed(capsys):
    assert cli.main([]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for name, line in cli.COMMANDS.items():
        assert name in out
        assert line in out


@pytest.mark.parametrize(
    "words", [["bogus"], ["serve"], ["serve", "x", "--bogus"], ["serve", "x", "--port", "http"]]
)
def test_usage_errors_are_2(words, capsys):
    with raises(SystemExit, code=2):
        cli.main(words)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: stepscope" in captured.err


def failing(monkeypatch, error):
    from stepscope.cli import completion

    def run(arguments):
        raise error

    monkeypatch.setattr(completion, "run", run)
    return cli.main(["completion", "bash"])


def test_the_users_mistake_is_1_and_told_without_a_traceback(monkeypatch, capsys):
    assert failing(monkeypatch, LogDirectoryError("no runs", hint="train first", path="x/y")) == 1
    assert capsys.readouterr().err == "no runs\nhint: train first\nfile: x/y\n"


def test_a_defect_is_70_and_told_with_one(monkeypatch, capsys):
    assert failing(monkeypatch, ZeroDivisionError("oops")) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "defect in stepscope" in err


def test_an_interrupt_is_130(monkeypatch):
    assert failing(monkeypatch, KeyboardInterrupt()) == 130


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_says_what_it_does_and_none_says_it_twice(command):
    parser = cli.build_parser(only=command)
    [commands] = [action.choices for action in parser._actions if action.dest == "command"]
    actions = [action for action in commands[command]._actions if action.option_strings]
    lines = [action.help for action in actions]
    assert all(lines)
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_an_answer_for_programs(command):
    parser = cli.build_parser(only=command)
    [commands] = [action.choices for action in parser._actions if action.dest == "command"]
    options = {option for action in commands[command]._actions for option in action.option_strings}
    assert ("--json" in options) == (command != "top"), "top draws on the terminal until it is left"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["logs"], "no command 'logs'; to show a log directory: stepscope serve logs"),
        (["s3://bucket/runs"], "to show a log directory: stepscope serve s3://bucket/runs"),
        (["--logdir", "runs"], "to show a log directory: stepscope serve runs"),
        (["--logdir=runs", "--port", "1"], "to show a log directory: stepscope serve runs"),
        (["trace.json"], "to look at a profile: stepscope glance trace.json"),
        (["serv", "logs"], "did you mean serve?"),
        (["xyzzy"], "the commands: run, serve, share, token, "),
    ],
)
def test_who_names_no_command_is_told_which_it_may_be(words, meant, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "trace.json").write_text("{}")
    with raises(SystemExit, code=2):
        cli.main(words)
    assert meant in capsys.readouterr().err


def test_commands_and_options_are_taken_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ls").mkdir()  # a directory of that name is no reason to misunderstand a command
    assert cli.main(["ls", str(tmp_path)]) in (0, 1)
    assert "no command" not in capsys.readouterr().err
    with raises(SystemExit, code=0):
        cli.main(["--version"])
