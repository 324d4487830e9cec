"""gpuguard: save running GPU jobs below the application and bring them back."""

__version__ = "0.1.0"
