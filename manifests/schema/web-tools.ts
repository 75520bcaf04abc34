import {
  choice,
  closed,
  fatal,
  flag,
  integer,
  nullable,
  optionalText,
  references,
  text,
  timeoutMs,
  toolName,
} from "./fields.ts";

const toldToTheModel = () => optionalText("Told to the model.");
const name = () => toolName("Name of the tool.");

export const httpTools = references(
  "Tools that fetch from the web.",
  closed("One tool.", {
    name: name(),
    description: toldToTheModel(),
    path_prefix: optionalText("URL that every address must begin with."),
    timeout_ms: timeoutMs("For one call."),
    max_bytes: nullable(integer("Most bytes of an answer.", { minimum: 1, maximum: 5_000_000 })),
    format: choice("How the answer is shown.", ["text", "raw"], "text"),
    fatal: fatal(),
    allow_any_host: flag("Lets the model choose the host."),
  }),
);

export const searchTools = references(
  "Tools that search the web.",
  closed("One tool.", {
    name: name(),
    description: toldToTheModel(),
    max_results: nullable(integer("Most hits.", { minimum: 1, maximum: 20 })),
    fatal: fatal(),
  }),
);

export const documentTools = references(
  "Tools that search the tenant's documents.",
  closed("One tool.", {
    name: name(),
    description: toldToTheModel(),
    max_results: nullable(integer("Most hits.", { minimum: 1, maximum: 10 })),
    fatal: fatal(),
  }),
);

export const imageTools = references(
  "Tools that work on images.",
  closed("One tool.", {
    name: name(),
    description: toldToTheModel(),
    op: choice("What it does.", ["list", "info", "resize", "crop", "rotate", "convert", "thumbnail"]),
    allow_path: flag("Lets the model name a workspace file."),
    fatal: fatal(),
  }),
);

export const browserTools = references(
  "Tools that open a page in a browser.",
  closed("One tool.", {
    name: name(),
    description: toldToTheModel(),
    binding: text("The operator's entry.", { maxLength: 512 }),
    op: choice("What it brings back.", ["content", "links", "snapshot", "screenshot", "pdf", "json"], "content"),
    timeout_ms: timeoutMs("For one call."),
    path_prefix: optionalText("URL that every address must begin with."),
    fatal: fatal(),
  }),
);

export const githubPublish = nullable(
  closed("Lets the agent publish commits.", {
    repo: nullable(
      text("owner/name.", {
        maxLength: 256,
        pattern: "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$",
        patternHelp: "must be owner/name",
      }),
    ),
    auth: text("secret:NAME.", { maxLength: 4096 }),
    base: text("Branch that is published onto.", { maxLength: 256, default: "main" }),
    branch_prefix: optionalText("Put before the name of every branch.", { maxLength: 256 }),
  }),
);
