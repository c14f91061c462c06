"""Messages in the shapes of the 2026-07-28 schema, and of what older servers still send.

Written for these tests: one with every field, one with as few as possible, for each class.
"""

from __future__ import annotations

from typing import Any

SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "harbour", "version": "3.1"}}
ICON = {"src": "https://harbour.example/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"]}
NOTES: dict[str, Any] = {
    "audience": ["user", "assistant"],
    "priority": 0.25,
    "lastModified": "2026-03-01T08:00:00Z",
}
TEXT = {"type": "text", "text": "High water at 14:07"}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "chart://12", "name": "chart 12"}
INSIDE = {"uri": "chart://12/legend", "text": "depths in metres", "mimeType": "text/plain"}
BLOB = {"uri": "chart://12/tile", "blob": "AAECAw==", "mimeType": "application/octet-stream"}
EMBEDDED = {"type": "resource", "resource": INSIDE}
ALIEN = {"type": "hologram", "beams": [1, 2, {"hue": None}], "annotations": "none"}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"port": {"type": "string", "x-mcp-header": "Port"}, "day": {"$ref": "#/$defs/d"}},
    "$defs": {"d": {"type": "string", "format": "date"}},
    "required": ["port"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {
    "name": "tide",
    "title": "Tide table",
    "description": "When the water is high",
    "inputSchema": SCHEMA,
    "outputSchema": {"oneOf": [{"type": "array"}, {"type": "null"}]},
    "annotations": {"title": "Tides", "readOnlyHint": True, "openWorldHint": False},
    "execution": {"taskSupport": "optional"},
    "icons": [ICON, {"src": "data:,", "theme": "dark"}],
    "_meta": {"harbour/id": 7},
}
RESOURCE: dict[str, Any] = {
    "uri": "chart://12",
    "name": "chart 12",
    "title": "Inner harbour",
    "description": "Soundings of 2025",
    "mimeType": "application/geo+json",
    "size": 48213,
    "annotations": NOTES,
    "icons": [ICON],
    "_meta": {"harbour/id": 8},
}
TEMPLATE: dict[str, Any] = {
    "uriTemplate": "chart://{number}",
    "name": "charts",
    "title": "All charts",
    "description": "By number",
    "mimeType": "application/geo+json",
    "annotations": {"priority": 1},
    "icons": [],
    "_meta": {},
}
PROMPT: dict[str, Any] = {
    "name": "passage",
    "title": "Passage plan",
    "description": "Plan a passage between two ports",
    "arguments": [
        {"name": "from", "title": "From", "description": "Port of departure", "required": True},
        {"name": "to", "required": False},
        {"name": "via"},
    ],
    "icons": [ICON],
    "_meta": {"harbour/id": 9},
}
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": False, "subscribe": True},
    "prompts": {},
    "logging": {},
    "completions": {},
    "extensions": {"example.com/charts": {"datum": "LAT"}},
    "experimental": {"tides": {"v": 2}},
    "tasks": {"list": {}, "requests": {"tools": {"call": {}}}},
    "somethingNew": {"a": [1]},
}
PAGE = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public", "_meta": SERVER}

# (class name, message)
TASK: dict[str, Any] = {
    "taskId": "t-1",
    "status": "working",
    "createdAt": "2026-03-01T08:00:00Z",
    "lastUpdatedAt": "2026-03-01T08:00:01Z",
    "statusMessage": "counting",
    "ttl": 60000,
    "pollInterval": 500,
}

VECTORS: list[tuple[str, dict[str, Any]]] = [
    ("Annotations", NOTES),
    ("Annotations", {}),
    ("Icon", ICON),
    ("Icon", {"src": "data:image/svg+xml,", "theme": "light"}),
    ("TextContent", TEXT),
    ("TextContent", {**TEXT, "annotations": NOTES, "_meta": {"a": 1}}),
    ("ImageContent", IMAGE),
    ("ImageContent", {**IMAGE, "annotations": {"priority": 0}, "_meta": {}}),
    ("AudioContent", AUDIO),
    ("ResourceLink", LINK),
    ("ResourceLink", {**RESOURCE, "type": "resource_link"}),
    ("EmbeddedResource", EMBEDDED),
    ("EmbeddedResource", {**EMBEDDED, "resource": BLOB, "annotations": NOTES, "_meta": {"a": 1}}),
    ("UnknownContent", ALIEN),
    ("TextResourceContents", INSIDE),
    ("TextResourceContents", {"uri": "chart://0", "text": "", "_meta": {"a": 1}}),
    ("BlobResourceContents", BLOB),
    ("Tool", TOOL),
    ("Tool", {"name": "now", "inputSchema": {"type": "object"}}),
    ("ToolAnnotations", {"destructiveHint": False, "idempotentHint": True}),
    ("ToolExecution", {}),
    ("Resource", RESOURCE),
    ("Resource", {"uri": "chart://1", "name": "chart 1"}),
    ("ResourceTemplate", TEMPLATE),
    ("Prompt", PROMPT),
    ("Prompt", {"name": "hello"}),
    ("PromptMessage", {"role": "user", "content": TEXT}),
    ("PromptMessage", {"role": "assistant", "content": EMBEDDED}),
    ("CallToolResult", {"content": [TEXT, IMAGE, AUDIO, LINK, EMBEDDED, ALIEN]}),
    (
        "CallToolResult",
        {
            "resultType": "complete",
            "content": [],
            "structuredContent": {"high": ["14:07", None]},
            "isError": False,
            "_meta": SERVER,
        },
    ),
    ("CallToolResult", {"content": [], "structuredContent": None, "isError": True}),
    ("CallToolResult", {"content": [], "structuredContent": [1, "a", {}]}),
    ("CallToolResult", {"structuredContent": 7.5}),
    ("ListToolsResult", {**PAGE, "tools": [TOOL], "nextCursor": "page 2"}),
    ("ListToolsResult", {"tools": []}),
    ("ListResourcesResult", {**PAGE, "resources": [RESOURCE, RESOURCE], "nextCursor": ""}),
    ("ListResourceTemplatesResult", {**PAGE, "resourceTemplates": [TEMPLATE]}),
    ("ListPromptsResult", {**PAGE, "prompts": [PROMPT]}),
    ("ReadResourceResult", {**PAGE, "contents": [INSIDE, BLOB]}),
    ("GetPromptResult", {"messages": [{"role": "user", "content": IMAGE}], "description": "x"}),
    ("CompleteResult", {"completion": {"values": ["Cork", "Cobh"], "total": 9, "hasMore": True}}),
    ("CompleteResult", {"completion": {"values": []}, "resultType": "complete"}),
    ("ServerCapabilities", CAPABILITIES),
    ("ServerCapabilities", {}),
    (
        "InitializeResult",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "serverInfo": {
                "name": "harbour",
                "version": "3.1",
                "title": "Harbour office",
                "description": "Tides and charts",
                "websiteUrl": "https://harbour.example",
                "icons": [ICON],
            },
            "instructions": "Ask for a port first.",
            "_meta": {"a": 1},
        },
    ),
    (
        "DiscoverResult",
        {
            **PAGE,
            "supportedVersions": ["2026-07-28", "2025-11-25"],
            "capabilities": CAPABILITIES,
            "instructions": "Ask for a port first.",
        },
    ),
    ("Progress", {"progressToken": "t-1", "progress": 3, "total": 12.5, "message": "reading"}),
    ("Progress", {"progressToken": 4, "progress": 0.5, "_meta": {"a": 1}}),
    (
        "ElicitRequest",
        {
            "mode": "form",
            "message": "Which port?",
            "requestedSchema": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
            "_meta": {"progressToken": 3},
        },
    ),
    ("ElicitRequest", {"mode": "url", "message": "Pay", "url": "https://harbour.example/pay", "elicitationId": "p-1"}),
    ("ElicitResult", {"action": "accept", "content": {"port": "Hull", "day": 3, "late": False, "crew": ["a", "b"]}}),
    ("ElicitResult", {"action": "cancel"}),
    (
        "SamplingRequest",
        {
            "messages": [
                {"role": "user", "content": TEXT},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "u1", "name": "tide", "input": {"a": 1}}]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "toolUseId": "u1",
                            "content": [TEXT, IMAGE],
                            "structuredContent": {"m": 3},
                            "isError": False,
                        }
                    ],
                    "_meta": {"a": 1},
                },
                {"role": "user", "content": [AUDIO, ALIEN]},
            ],
            "maxTokens": 400,
            "systemPrompt": "Be brief.",
            "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 0.5},
            "includeContext": "thisServer",
            "temperature": 0.5,
            "stopSequences": ["END"],
            "metadata": {"trace": "x"},
            "tools": [TOOL],
            "toolChoice": {"mode": "required"},
        },
    ),
    ("SamplingRequest", {"messages": [], "maxTokens": 1}),
    ("SamplingMessage", {"role": "user", "content": IMAGE}),
    (
        "CreateMessageResult",
        {"role": "assistant", "content": TEXT, "model": "small", "stopReason": "endTurn", "_meta": {"a": 1}},
    ),
    ("CreateMessageResult", {"role": "assistant", "content": [TEXT, AUDIO], "model": "small"}),
    ("ToolUseContent", {"type": "tool_use", "id": "u1", "name": "tide", "input": {}, "_meta": {"a": 1}}),
    ("ToolResultContent", {"type": "tool_result", "toolUseId": "u1", "content": []}),
    ("Root", {"uri": "file:///charts", "name": "Charts", "_meta": {"a": 1}}),
    ("ListRootsResult", {"roots": [{"uri": "file:///charts"}], "_meta": {"a": 1}}),
    (
        "InputRequiredResult",
        {
            "resultType": "input_required",
            "inputRequests": {"boat": {"method": "roots/list"}},
            "requestState": "sealed",
            "_meta": SERVER,
        },
    ),
    ("LogMessage", {"level": "notice", "data": {"gale": [7, None]}, "logger": "weather"}),
    ("LogMessage", {"level": "debug", "data": None}),
    ("Notification", {"method": "notifications/resources/updated", "params": {"uri": "chart://12"}}),
    ("Notification", {"method": "notifications/tools/list_changed"}),
    ("PromptReference", {"type": "ref/prompt", "name": "report", "title": "Report"}),
    ("ResourceTemplateReference", {"type": "ref/resource", "uri": "chart://{number}"}),
    ("TaskInfo", TASK),
    ("TaskInfo", {"taskId": "t-2", "status": "completed", "createdAt": "", "lastUpdatedAt": "", "ttl": 0}),
    ("CreateTaskResult", {"task": TASK, "_meta": {"io.modelcontextprotocol/model-immediate-response": "soon"}}),
    ("ListTasksResult", {"tasks": [TASK, TASK], "nextCursor": ""}),
    ("ToolsChanged", {}),
    ("PromptsChanged", {"_meta": {"a": 1}}),
    ("ResourcesChanged", {}),
    ("ResourceUpdated", {"uri": "chart://12", "_meta": {"a": 1}}),
]
