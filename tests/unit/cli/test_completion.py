import json
import shutil
import subprocess

import pytest
from support.errors import raises

from stepscope.cli import COMMANDS, main
from stepscope.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_completed(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in [*COMMANDS, "path-prefix", "allow-host", "no-cache"]:
        assert word in script


def test_log_directories_complete_to_directories(capsys):
    main(["completion", "bash"])
    assert "_serve_pos_0_COMPGEN=_shtab_compgen_dirs" in capsys.readouterr().out.replace("stepscope", "")


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_bash_completes_with_it(capsys):
    main(["completion", "bash"])
    script = capsys.readouterr().out + "\n"
    press_tab = """
COMP_WORDS=(stepscope serve --path); COMP_CWORD=2
COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
$(complete -p stepscope | sed 's/.*-F \\([^ ]*\\).*/\\1/') stepscope --path serve
echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script + press_tab], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "--path-prefix"


def test_json(capsys):
    assert main(["completion", "zsh", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["shell"] == "zsh"
    assert answer["script"].startswith("#compdef stepscope")


def test_an_unknown_shell_is_a_usage_error(capsys):
    with raises(SystemExit, code=2):
        main(["completion", "sh"])
    assert "bash" in capsys.readouterr().err
