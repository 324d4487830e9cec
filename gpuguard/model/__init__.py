"""The words of gpuguard as frozen dataclasses; nothing here touches the world."""
