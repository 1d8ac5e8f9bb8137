"""The manual page and the completions of attn-plot, from the parsers of its kinds."""

import re

from command import TOOL, fail


def _options(parser):
    """(names, metavar or None, help) of the options of a kind."""
    for action in parser._actions:  # pylint: disable=protected-access
        if action.option_strings:
            value = None if action.nargs == 0 else action.metavar or "WORD"
            yield action.option_strings, value, _help_of(action), action.choices or ()


def _help_of(action):
    return re.sub(r"\s+", " ", (action.help or "") % {"default": action.default})


def _roff(text):
    lines = (line.replace("\\", r"\e").replace("-", r"\-") for line in text.splitlines())
    return "\n".join(rf"\&{line}" if line[:1] in ".'" else line for line in lines)


def _paragraphs(text):
    """Paragraphs of a docstring in roff; indented lines stay as they are."""
    for part in text.strip().split("\n\n"):
        if part.startswith("    "):
            code = "\n".join(line.removeprefix("    ") for line in part.splitlines())
            yield f".PP\n.RS 4\n.EX\n{_roff(code)}\n.EE\n.RE"
        else:
            yield f".PP\n{_roff(part)}"


def man_page(kinds, version):
    """attn-plot(1) in roff: a section for each kind."""
    names = ", ".join(kinds)
    lines = [r".\" -*- coding: UTF-8 -*-", f'.TH "ATTN\\-PLOT" 1 "" "attnkit {version}" "attnkit"',
             ".ad l", ".nr HY 0", ".nh", ".SH NAME",
             r"attn\-plot \- draws figures of what the tools of attnkit write", ".SH SYNOPSIS",
             r"\fBattn\-plot\fR", r"\fIKIND\fR", r"\fI[options]\fR", r"\fI[INPUT...]\fR",
             r"\fB\-o\fR \fINAME\fR", ".SH DESCRIPTION",
             _roff(f"Writes NAME.png and NAME.pdf. KIND is one of {names}. Needs Python with "
                   "matplotlib and h5py.")]
    for kind, parser in kinds.items():
        lines += [f".SH {_roff(kind.upper())}", *_paragraphs(parser.description)]
        for names, value, text, _ in _options(parser):
            shown = ", ".join(rf"\fB{_roff(name)}\fR" for name in names)
            lines += [".TP", shown + (rf" \fI{_roff(value)}\fR" if value else ""), _roff(text)]
    lines += [".SH EXIT STATUS", ".TP", r"\fB0\fR", "success", ".TP", r"\fB2\fR",
              "the command line is wrong", ".TP", r"\fB3\fR",
              "an input is missing or unreadable, or has a wrong type, shape or value", ".TP",
              r"\fB5\fR", "the output cannot be written", ".SH SEE ALSO",
              r"\fBattnkit\fR(7), \fBexplain\-away\-stats\fR(1)"]
    return "\n".join(lines)


def _bash(kinds):
    cases = "\n".join(
        f"    {kind}) words='{' '.join(names[-1] for names, *_ in _options(parser))}' ;;"
        for kind, (_, parser) in kinds.items())
    return f"""\
# Completes the kinds and options of {TOOL} in bash; printed by {TOOL} --completion=bash.

_attn_plot() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=''
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W '{' '.join(kinds)} --help --man --completion --version' -- "$word")
    return
  fi
  if [[ $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}

complete -F _attn_plot {TOOL}"""


def _zsh(kinds):
    def described(text):
        return text.replace("'", "’").replace(":", r"\:").replace("[", r"\[").replace("]", r"\]")
    listed = "\n".join(f"    '{kind}:{described(summary)}'" for kind, (summary, _) in kinds.items())
    cases = []
    for kind, (_, parser) in kinds.items():
        specs = " ".join(f"'{names[-1]}{'=' if value else ''}[{described(text)}]"
                         f"{f':{value}:_files' if value else ''}'"
                         for names, value, text, _ in _options(parser))
        cases.append(f"    {kind}) _arguments -s $skip {specs} '*:file:_files' ;;")
    body = "\n".join(cases)
    return f"""\
#compdef {TOOL}
# Completes the kinds and options of {TOOL} in zsh; printed by {TOOL} --completion=zsh.

_attn-plot() {{
  local -a kinds skip
  kinds=(
{listed}
  )
  if ((CURRENT == 2)); then
    _describe kind kinds
    return
  fi
  skip=('1:kind:')
  case $words[2] in
{body}
  esac
}}

if [[ $funcstack[1] == _attn-plot ]]; then
  _attn-plot "$@"
else
  compdef _attn-plot {TOOL}
fi"""


def _fish(kinds):
    def quoted(text):
        return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"
    lines = [f"# Completes the kinds and options of {TOOL} in fish; printed by {TOOL} "
             "--completion=fish.", ""]
    all_kinds = " ".join(kinds)
    for kind, (summary, parser) in kinds.items():
        lines.append(f"complete -c {TOOL} -f -n 'not __fish_seen_subcommand_from {all_kinds}' "
                     f"-a {kind} -d {quoted(summary)}")
        for names, value, text, choices in _options(parser):
            short = "".join(f" -s {name[1]}" for name in names if len(name) == 2)
            long = "".join(f" -l {name[2:]}" for name in names if len(name) > 2)
            given = f" -x -a {quoted(' '.join(choices))}" if choices else " -r -F" if value else ""
            lines.append(f"complete -c {TOOL} -n '__fish_seen_subcommand_from {kind}'{short}{long}"
                         f"{given} -d {quoted(text)}")
    return "\n".join(lines)


def completion(shell, kinds):
    """The completion script for a shell."""
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if shell not in writers:
        fail(2, f"--completion {shell or '(nothing)'}: expected one of {', '.join(writers)}")
    return writers[shell](kinds)
