"""What cordons mean for a plan."""

from gpuguard.model.cordons import SITE, describe
from gpuguard.planning.views import HostView


def cordon_problems(view: HostView) -> list[str]:
    """Return why no new work goes to this host, one sentence for each cordon."""
    return [f"it is {describe(cordon)}" for cordon in view.cordons]


def cordon_remedy(view: HostView | None) -> str | None:
    """Return the command that lifts the cordon of this host, None without one."""
    if view is None or not view.cordons:
        return None
    if all(cordon.owner == SITE for cordon in view.cordons):
        return f"lift it with the site's own tool, or choose another host than {view.name}"
    return f"gpuguard uncordon {view.name}"
