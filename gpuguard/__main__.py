"""Run gpuguard as `python -m gpuguard`."""

from gpuguard.commands.main import run

if __name__ == "__main__":
    run()
