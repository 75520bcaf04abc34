import Type from "typebox";
import {
  choice,
  closed,
  fatal,
  flag,
  integer,
  jsonObject,
  mapOf,
  nullable,
  optionalText,
  references,
  referencesMax,
  text,
  texts,
  timeoutMs,
  timeoutMsMax,
  toolGlobs,
  toolName,
} from "./fields.ts";

const url = (description: string) => text(description, { maxLength: 2048 });
const auth = () => nullable(text("Credential: a literal or secret:NAME.", { maxLength: 4096 }));
const argsSchema = () => jsonObject("JSON Schema of the arguments.");
const toldToTheModel = () => optionalText("Told to the model.");

export const mcpServers = references(
  "MCP servers whose tools the agent gets as <name>__<tool>.",
  closed("One server.", {
    name: toolName("First part of its tools' names."),
    url: nullable(url("Where it listens, for http and sse.")),
    command: nullable(text("What is started, for stdio.", { maxLength: 1024 })),
    args: texts("Arguments of the command."),
    cwd: nullable(text("Directory of the command.", { maxLength: 1024 })),
    env: mapOf("Environment of the command.", Type.String()),
    auth: auth(),
    transport: choice("How it is spoken to.", ["http", "sse", "stdio"], "sse"),
    tools: toolGlobs("Tools to bind; empty binds all."),
    timeout_ms: timeoutMs("For one call; null is 30 seconds."),
    use_instructions: flag("Tells the model what the server says of itself."),
  }),
);

export const peers = references(
  "Agents elsewhere, each the tool peer__<name>.",
  closed("One agent.", {
    name: toolName("Last part of the tool's name."),
    url: url("Its A2A endpoint."),
    auth: auth(),
    timeout_ms: timeoutMs("For one call; null is 60 seconds."),
  }),
);

export const containers = references(
  "Container images that are run as tools.",
  closed("One image.", {
    name: toolName("What it is called."),
    description: toldToTheModel(),
    gateway_url: nullable(url("The gateway that runs it.")),
    image: text("The image.", { maxLength: 512 }),
    container_tool_name: nullable(toolName("Name of the tool.")),
    timeout_ms: timeoutMs("For one call."),
    auth: auth(),
    args_schema: argsSchema(),
    fatal: fatal(),
  }),
);

export const queues = references(
  "Work that consumers outside take from a list.",
  closed("One queue.", {
    name: toolName("What it is called."),
    queue_binding: text("Key of the list.", { maxLength: 512 }),
    description: toldToTheModel(),
    deadline_ms: nullable(integer("How long the run waits. Milliseconds.", { minimum: 1, maximum: timeoutMsMax })),
    args_schema: argsSchema(),
    fatal: fatal(),
  }),
);

export const sandboxes = references(
  "Sandboxes of the operator that run code.",
  closed("One sandbox.", {
    name: toolName("What it is called."),
    binding: text("The operator's entry.", { maxLength: 512 }),
    description: toldToTheModel(),
    sandbox_tool_name: nullable(toolName("Name of the tool.")),
    timeout_ms: timeoutMs("For one call."),
    path_prefix: optionalText("Put before every path."),
    args_schema: argsSchema(),
    fatal: fatal(),
  }),
);

export const shellTools = references(
  "Commands that the agent may start.",
  closed("One tool.", {
    name: toolName("Name of the tool."),
    commands: texts("How an allowed command begins, matched token by token; no shell reads it.", {
      minItems: 1,
      maxItems: referencesMax,
    }),
    description: toldToTheModel(),
    timeout_ms: Type.Unsafe<number | null>({
      type: ["integer", "null"],
      description: "For one command. Milliseconds.",
      minimum: 1,
      maximum: timeoutMsMax,
      default: 300_000,
    }),
    fatal: fatal(),
    background: flag("Lets commands run on beside the conversation."),
  }),
);
