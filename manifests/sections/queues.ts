import {
  closed,
  fatal,
  integer,
  nullable,
  references,
  text,
  timeoutMsMax,
  toolName,
  unbuilt,
} from "../fields/fields.ts";
import { argsSchema, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  queues: unbuilt(
    references(
      "Work that consumers outside take from a list.",
      closed("One queue.", {
        name: toolName("What it is called."),
        queue_binding: text("Key of the list.", { maxLength: 512 }),
        description: toldToTheModel(),
        deadline_ms: nullable(integer("How long the run waits. Milliseconds.", { minimum: 1, maximum: timeoutMsMax })),
        args_schema: argsSchema(),
        fatal: fatal(),
      }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec>[] = [notInMulti("queues"), unique("queues", "name")];

export const queues = defineSection({ fields, rules });
