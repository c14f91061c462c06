"""What servers send and what handlers answer, as immutable values. `from_wire(...)` reads JSON, `to_wire()` writes it.

Each module is loaded when one of its names is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._base import Value as Value
    from ._exports import ProviderTools as ProviderTools
    from ._exports import tools_for as tools_for
    from .common import Annotations as Annotations
    from .common import CacheableResult as CacheableResult
    from .common import Icon as Icon
    from .common import Implementation as Implementation
    from .common import ListResult as ListResult
    from .common import Result as Result
    from .content import AudioContent as AudioContent
    from .content import ContentBlock as ContentBlock
    from .content import EmbeddedResource as EmbeddedResource
    from .content import ImageContent as ImageContent
    from .content import ResourceLink as ResourceLink
    from .content import TextContent as TextContent
    from .content import UnknownContent as UnknownContent
    from .context import Context as Context
    from .elicitation import ElicitRequest as ElicitRequest
    from .elicitation import ElicitResult as ElicitResult
    from .elicitation import fill_defaults as fill_defaults
    from .events import Event as Event
    from .events import Honored as Honored
    from .events import Missed as Missed
    from .events import PromptsChanged as PromptsChanged
    from .events import ResourcesChanged as ResourcesChanged
    from .events import ResourceUpdated as ResourceUpdated
    from .events import TaskChanged as TaskChanged
    from .events import ToolsChanged as ToolsChanged
    from .extensions import ExtensionResult as ExtensionResult
    from .input_required import InputRequiredResult as InputRequiredResult
    from .notifications import LogMessage as LogMessage
    from .notifications import Notification as Notification
    from .prompts import GetPromptResult as GetPromptResult
    from .prompts import ListPromptsResult as ListPromptsResult
    from .prompts import Prompt as Prompt
    from .prompts import PromptArgument as PromptArgument
    from .prompts import PromptMessage as PromptMessage
    from .resources import BlobResourceContents as BlobResourceContents
    from .resources import ListResourcesResult as ListResourcesResult
    from .resources import ListResourceTemplatesResult as ListResourceTemplatesResult
    from .resources import ReadResourceResult as ReadResourceResult
    from .resources import Resource as Resource
    from .resources import ResourceTemplate as ResourceTemplate
    from .resources import TextResourceContents as TextResourceContents
    from .roots import ListRootsResult as ListRootsResult
    from .roots import Root as Root
    from .rounds import Resume as Resume
    from .rounds import RootsRequest as RootsRequest
    from .rounds import read_input_request as read_input_request
    from .sampling import CreateMessageResult as CreateMessageResult
    from .sampling import SamplingMessage as SamplingMessage
    from .sampling import SamplingRejected as SamplingRejected
    from .sampling import SamplingRequest as SamplingRequest
    from .sampling import ToolResultContent as ToolResultContent
    from .sampling import ToolUseContent as ToolUseContent
    from .server import DiscoverResult as DiscoverResult
    from .server import InitializeResult as InitializeResult
    from .server import ListCapability as ListCapability
    from .server import ResourcesCapability as ResourcesCapability
    from .server import ServerCapabilities as ServerCapabilities
    from .skills import Skill as Skill
    from .skills import SkillFile as SkillFile
    from .tasks import CreateTaskResult as CreateTaskResult
    from .tasks import ListTasksResult as ListTasksResult
    from .tasks import TaskInfo as TaskInfo
    from .tools import CallToolResult as CallToolResult
    from .tools import ListToolsResult as ListToolsResult
    from .tools import Tool as Tool
    from .tools import ToolAnnotations as ToolAnnotations
    from .tools import ToolExecution as ToolExecution
    from .utilities import CompleteResult as CompleteResult
    from .utilities import Completion as Completion
    from .utilities import Progress as Progress
    from .utilities import PromptReference as PromptReference
    from .utilities import ResourceTemplateReference as ResourceTemplateReference

_HOME = {
    "Annotations": "common",
    "AudioContent": "content",
    "BlobResourceContents": "resources",
    "CacheableResult": "common",
    "CallToolResult": "tools",
    "CompleteResult": "utilities",
    "Completion": "utilities",
    "ContentBlock": "content",
    "Context": "context",
    "CreateMessageResult": "sampling",
    "CreateTaskResult": "tasks",
    "DiscoverResult": "server",
    "ElicitRequest": "elicitation",
    "ElicitResult": "elicitation",
    "EmbeddedResource": "content",
    "Event": "events",
    "ExtensionResult": "extensions",
    "GetPromptResult": "prompts",
    "Honored": "events",
    "Icon": "common",
    "ImageContent": "content",
    "Implementation": "common",
    "InitializeResult": "server",
    "InputRequiredResult": "input_required",
    "ListCapability": "server",
    "ListPromptsResult": "prompts",
    "ListResourceTemplatesResult": "resources",
    "ListResourcesResult": "resources",
    "ListResult": "common",
    "ListRootsResult": "roots",
    "ListTasksResult": "tasks",
    "ListToolsResult": "tools",
    "LogMessage": "notifications",
    "Notification": "notifications",
    "Missed": "events",
    "Progress": "utilities",
    "Prompt": "prompts",
    "PromptArgument": "prompts",
    "PromptMessage": "prompts",
    "PromptReference": "utilities",
    "PromptsChanged": "events",
    "ProviderTools": "_exports",
    "ReadResourceResult": "resources",
    "Resource": "resources",
    "ResourceLink": "content",
    "ResourceTemplate": "resources",
    "ResourceTemplateReference": "utilities",
    "ResourceUpdated": "events",
    "ResourcesCapability": "server",
    "ResourcesChanged": "events",
    "Result": "common",
    "Resume": "rounds",
    "Root": "roots",
    "RootsRequest": "rounds",
    "SamplingMessage": "sampling",
    "SamplingRejected": "sampling",
    "SamplingRequest": "sampling",
    "ServerCapabilities": "server",
    "Skill": "skills",
    "SkillFile": "skills",
    "TaskChanged": "events",
    "TaskInfo": "tasks",
    "TextContent": "content",
    "TextResourceContents": "resources",
    "Tool": "tools",
    "ToolAnnotations": "tools",
    "ToolExecution": "tools",
    "ToolResultContent": "sampling",
    "ToolUseContent": "sampling",
    "ToolsChanged": "events",
    "UnknownContent": "content",
    "Value": "_base",
    "fill_defaults": "elicitation",
    "tools_for": "_exports",
    "read_input_request": "rounds",
}

__all__ = tuple(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # What `from .home import name` does; importlib would have to be loaded first.
    value = globals()[name] = getattr(__import__(home, globals(), None, (name,), 1), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
