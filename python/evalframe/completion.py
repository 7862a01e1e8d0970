"""The command ``evalframe completion``: shell scripts that complete commands, options and their values."""

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evalframe.commands import Commands, add_command, show


@dataclass(frozen=True)
class Option:
    """An option of a command, as a shell needs to know it."""

    flags: tuple[str, ...]
    about: str
    takes_value: bool
    values: tuple[str, ...]  # that it may have; empty: any, or files
    takes_file: bool


@dataclass(frozen=True)
class Command:
    """A command with its options."""

    name: str
    about: str
    options: tuple[Option, ...]
    values: tuple[str, ...]  # of its argument; empty: files


def add_to(commands: Commands) -> None:
    """Adds the command."""
    about = "print a script that has a shell complete commands and options"
    parser = add_command(commands, "completion", _completion, about=about, examples=(
        'eval "$(evalframe completion bash)"                          in ~/.bashrc',
        'eval "$(evalframe completion zsh)"                           in ~/.zshrc, behind compinit',
        "evalframe completion fish > ~/.config/fish/completions/evalframe.fish",
    ))  # fmt: skip
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help=" or ".join(_SCRIPTS))


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """The commands that a parser of a command line has, itself not included."""
    (added,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    about = {action.dest: action.help or "" for action in added._choices_actions}
    return [_command(name, about[name], each) for name, each in added.choices.items()]


def _completion(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evalframe.__main__ import command_line

    show(_SCRIPTS[options.shell](commands_of(command_line()[0])).rstrip("\n"))
    return 0


def _command(name: str, about: str, parser: argparse.ArgumentParser) -> Command:
    options = tuple(_option(action) for action in parser._actions if action.option_strings)
    arguments = [action for action in parser._actions if not action.option_strings]
    values = tuple(str(value) for action in arguments for value in action.choices or ())
    return Command(name, about, options, values)


def _option(action: argparse.Action) -> Option:
    takes_value = action.nargs != 0
    values = tuple(str(value) for value in action.choices or ())
    about = (action.help or "").replace("%%", "%")
    return Option(tuple(action.option_strings), about, takes_value, values, takes_value and action.metavar == "FILE")


def _bash(commands: list[Command]) -> str:
    return "".join(f"{line}\n" for line in _bash_lines(commands))


def _bash_lines(commands: list[Command]) -> Iterator[str]:
    names = " ".join([command.name for command in commands] + ["--help", "--version"])
    yield "_evalframe() {"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words="
    yield "  COMPREPLY=()"
    yield "  if ((COMP_CWORD == 1)); then"
    yield f'    COMPREPLY=($(compgen -W "{names}" -- "$word"))'
    yield "    return"
    yield "  fi"
    yield '  case "$command $before" in'
    for command in commands:
        for option in command.options:
            patterns = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
            if option.values:
                yield f'    {patterns}) COMPREPLY=($(compgen -W "{" ".join(option.values)}" -- "$word")); return ;;'
            elif option.takes_value and not option.takes_file:
                yield f"    {patterns}) return ;;"
    yield "  esac"
    yield '  case "$command" in'
    for command in commands:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        yield f'    {command.name}) words="{flags}" ;;'
    yield "  esac"
    yield '  if [[ $word == -* ]]; then'
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "    return"
    yield "  fi"
    yield '  case "$command" in'
    for command in commands:
        if command.values:
            yield f'    {command.name}) COMPREPLY=($(compgen -W "{" ".join(command.values)}" -- "$word")); return ;;'
    yield "  esac"
    yield '  local IFS=$\'\\n\''
    yield '  COMPREPLY=($(compgen -f -- "$word"))'
    yield "}"
    yield "complete -o filenames -F _evalframe evalframe"


def _zsh(commands: list[Command]) -> str:
    return "".join(f"{line}\n" for line in _zsh_lines(commands))


def _zsh_lines(commands: list[Command]) -> Iterator[str]:
    yield "#compdef evalframe"
    yield "_evalframe() {"
    yield "  local -a commands"
    described = " ".join(_quoted(f"{command.name}:{command.about}") for command in commands)
    yield f"  commands=({described})"
    yield "  if ((CURRENT == 2)); then"
    yield "    _describe command commands"
    yield "    return"
    yield "  fi"
    yield "  local command=$words[2]"
    yield "  shift words"
    yield "  ((CURRENT--))"
    yield "  case $command in"
    for command in commands:
        specs = [_zsh_option(option, flag) for option in command.options for flag in option.flags]
        argument = f"*:value:({' '.join(command.values)})" if command.values else "*:file:_files"
        yield f"    {command.name}) _arguments {' '.join(map(_quoted, [*specs, argument]))} ;;"
    yield "  esac"
    yield "}"
    yield "compdef _evalframe evalframe"


def _zsh_option(option: Option, flag: str) -> str:
    about = "".join("\\" + c if c in "[]:\\" else c for c in option.about)
    if not option.takes_value:
        return f"{flag}[{about}]"
    values = f"value:({' '.join(option.values)})" if option.values else "value:"
    return f"{flag}[{about}]:" + ("file:_files" if option.takes_file else values)


def _fish(commands: list[Command]) -> str:
    return "".join(f"{line}\n" for line in _fish_lines(commands))


def _fish_lines(commands: list[Command]) -> Iterator[str]:
    for command in commands:
        yield f"complete -c evalframe -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.about)}"
        inside = f"complete -c evalframe -n '__fish_seen_subcommand_from {command.name}'"
        if command.values:
            yield f"{inside} -f -a {_quoted(' '.join(command.values))}"
        for option in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            yield f"{inside} {flags}{_fish_value(option)} -d {_quoted(option.about)}"


def _fish_value(option: Option) -> str:
    if not option.takes_value:
        return ""
    values = f" -a {_quoted(' '.join(option.values))}" if option.values else ""
    return f"{' -r' if option.takes_file else ' -x'}{values}"


def _quoted(text: str) -> str:
    """A word for each of the three shells; a quote inside would be written in two ways."""
    return shlex.quote(text.replace("'", "`"))


_SCRIPTS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
