"""`evalframe completion`: scripts for shells, made of the same parser as the command line."""

import shutil
import subprocess
from pathlib import Path

import pytest

from evalframe.__main__ import command_line, main
from evalframe.completion import commands_of

COMMANDS = {command.name: command for command in commands_of(command_line()[0])}


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def complete(words: list[str], text: str, folder: Path) -> list[str]:
    """What bash offers for the last word."""
    ask = 'eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _evalframe; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask, "bash", text, *words], capture_output=True, text=True, cwd=folder)
    assert done.stderr == ""
    return sorted(done.stdout.split("\n")[:-1]) if done.stdout.strip() else []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_bash_completes_commands_options_values_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script("bash", capsys)
    (tmp_path / "some file.py").touch()

    def offered(*words: str) -> list[str]:
        return complete(["evalframe", *words], text, tmp_path)

    assert offered("d") == ["decompile", "dis"]
    assert offered("run", "--b") == ["--backend", "--background"]
    assert offered("run", "--mode", "") == ["capture", "evaluate"]
    assert offered("completion", "") == ["bash", "fish", "zsh"]
    assert offered("dis", "some") == offered("run", "--report", "some") == ["some file.py"]
    assert offered("dis", "-c", "") == []
    assert offered("step", "--no-such") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert {"run", "explain", "graph", "guards", "variables", "dis", "code", "decompile", "step", "completion"} == set(COMMANDS)
    for command in COMMANDS.values():
        assert command.name in text
        for option in command.options:
            for flag in option.flags:
                assert (flag if shell != "fish" else f"-l {flag[2:]}" if flag[:2] == "--" else f"-s {flag[1:]}") in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_of_the_shells_syntax(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    (tmp_path / "script").write_text(script(shell, capsys))
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish on this machine")
def test_fish_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text(script("fish", capsys))
    ask = f"source {tmp_path / 'script'}; complete -C 'evalframe run --mode '; complete -C 'evalframe dec'"
    done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin"})
    assert [line.split("\t")[0] for line in done.stdout.split("\n")] == ["capture", "evaluate", "decompile", ""]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh on this machine")
def test_zsh_takes_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text(script("zsh", capsys))
    ask = f"autoload -U compinit && compinit -u -D && source {tmp_path / 'script'} && print $_comps[evalframe]"
    done = subprocess.run(["zsh", "-f", "-c", ask], capture_output=True, text=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert (done.stdout, done.stderr) == ("_evalframe\n", "")


def test_a_shell_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "invalid choice: 'tcsh' (choose from" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_in_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert f"evalframe {command}" in shown.partition("\nexample")[2]
