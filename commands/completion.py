"""gpuguard completion: print the script, install nothing."""

from enum import StrEnum
from typing import Annotated

import typer

from gpuguard.commands.options import examples
from gpuguard.commands.output import write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Shell(StrEnum):
    """The shells there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(
    epilog=examples(
        "gpuguard completion bash > /etc/bash_completion.d/gpuguard",
        "gpuguard completion zsh > ~/.zfunc/_gpuguard",
        "gpuguard completion fish > ~/.config/fish/completions/gpuguard.fish",
    )
)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> int:
    """Print the completion script for a shell."""
    from typer._completion_shared import get_completion_script

    from gpuguard.commands.frame import COMPLETE

    write(get_completion_script(prog_name="gpuguard", complete_var=COMPLETE, shell=shell.value))
    return 0
