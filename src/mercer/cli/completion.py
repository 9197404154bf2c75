"""Completion of the command in bash and zsh, written from the parser itself."""

from __future__ import annotations

import argparse

from mercer.cli.main import LIBSVM_TOOLS, make_parser

_BASH = """\
# eval "$(mercer completion bash)", in ~/.bashrc
_mercer() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}} $before" in
{choices}
    esac
    case "${{COMP_WORDS[1]}}" in
{options}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    else
        local IFS=$'\n'  # names may have spaces
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _mercer mercer
"""
_FILES = ("FILE", "MODEL")  # how main.py names values that are files
_ZSH = """\
#compdef mercer
# mercer completion zsh > a file _mercer in a folder of $fpath
_mercer() {{
    if (( CURRENT == 2 )); then
        local -a commands=(
{commands}
        )
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{options}
        *) _files ;;
    esac
}}
if [ "$funcstack[1]" = "_mercer" ]; then _mercer "$@"; else compdef _mercer mercer; fi
"""


def run(options: argparse.Namespace) -> int:
    """Print what the shell is to read."""
    print(bash() if options.shell == "bash" else zsh(), end="")
    return 0


def _commands() -> dict[str, argparse.ArgumentParser]:
    [found] = [
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return dict(found.choices)


def _helps() -> dict[str, str]:
    [found] = [
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return {action.dest: str(action.help) for action in found._choices_actions}


def _flags(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def bash() -> str:
    """The completion for bash."""
    options, choices = [], []
    for name, parser in _commands().items():
        words = [word for flag in _flags(parser) for word in flag.option_strings]
        for action in parser._actions:
            if not action.choices:
                continue
            given = " ".join(map(str, action.choices))
            preceding = action.option_strings or [name]
            choices.append(
                "        "
                + " | ".join(f'"{name} {before}"' for before in preceding)
                + f') COMPREPLY=($(compgen -W "{given}" -- "$word")); return ;;'
            )
        options.append(f'        {name}) words="{" ".join(words)}" ;;')
    names = " ".join([*_commands(), *LIBSVM_TOOLS])
    return _BASH.format(
        commands=names, options="\n".join(options), choices="\n".join(choices)
    )


def zsh() -> str:
    """The completion for zsh."""
    helps = _helps()
    commands = [f"            '{name}:{_quoted(text)}'" for name, text in helps.items()]
    commands += [f"            '{name}:as of LIBSVM'" for name in LIBSVM_TOOLS]
    options = []
    for name, parser in _commands().items():
        lines = [f"        {name}) _arguments \\"]
        for flag in _flags(parser):
            lines += [
                f"            '{word}[{_explained(flag)}]{_value(flag)}' \\"
                for word in flag.option_strings
            ]
        for action in parser._actions:
            if not action.option_strings:
                lines.append(f"            '{_positional(action)}' \\")
        lines.append("            ;;")
        options.append("\n".join(lines))
    return _ZSH.format(commands="\n".join(commands), options="\n".join(options))


def _quoted(text: str) -> str:
    """A text inside single quotes."""
    return text.replace("'", "'\\''")


def _explained(flag: argparse.Action) -> str:
    """The help of a flag, where brackets end it."""
    text = str(flag.help).replace("\\", "\\\\")
    return _quoted(text.replace("[", "\\[").replace("]", "\\]"))


def _value(flag: argparse.Action) -> str:
    """What follows a flag: one of some words, a file, or what only the user knows."""
    if flag.nargs == 0:
        return ""
    if flag.choices:
        return f":{flag.dest}:({' '.join(map(str, flag.choices))})"
    return f":{flag.dest}:{'_files' if flag.metavar in _FILES else ' '}"


def _positional(action: argparse.Action) -> str:
    if action.choices:
        return f":{action.dest}:({' '.join(map(str, action.choices))})"
    return f":{action.dest}:_files"
