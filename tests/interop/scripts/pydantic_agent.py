"""A pydantic-ai agent behind pydantic-acp: one tool that needs permission, no model, no network."""

from __future__ import annotations

from pydantic_acp import run_acp
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls the tool once, then reports what it returned."""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse([TextPart(f"the tool said: {returned[0].content} \u2028 \U0001f600")])
    return ModelResponse([ToolCallPart("deploy", {"target": "pröduction"}, tool_call_id="call-1")])


agent = Agent(FunctionModel(think), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def deploy(target: str) -> str:
    """Deploys."""
    return f"deployed to {target}"


if __name__ == "__main__":
    run_acp(agent=agent)
