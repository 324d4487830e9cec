"""Ask an agent for jobs, as the tests of jobs do."""

from typing import Any

from tests.integration.agent.kit import Agent, wait_for


def spec(*command: str, name: str = "train", **more: Any) -> dict[str, Any]:
    return {"name": name, "uid": "u1", "command": list(command), **more}


def shell(text: str, **more: Any) -> dict[str, Any]:
    return spec("sh", "-c", text, **more)


def run(agent: Agent, what: dict[str, Any], request_id: str = "r1", **more: Any) -> Any:
    return agent.call("jobs.run", spec=what, request_id=request_id, **more)


def text_of(agent: Agent, **params: Any) -> str:
    found: list[str] = []
    agent.call("jobs.logs", lambda event: found.append(event["text"]), name="train", **params)
    return "".join(found)


def ended(agent: Agent, name: str = "train") -> Any:
    return wait_for(
        lambda: (job := agent.call("jobs.show", name=name))["state"] != "running" and job
    )
