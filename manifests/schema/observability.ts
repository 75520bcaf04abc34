import { closed, flag, integer, list, number, optionalText, section, share, text, texts } from "./fields.ts";

export const observability = section("What is recorded of a run.", {
  trace: flag("Traces runs when the service exports traces.", true),
  metrics: texts("Counters that are counted; empty is every one."),
});

export const a2a = section("How other agents see this one.", {
  publish: flag("False withholds the agent card.", true),
  capabilities: list(
    "What the card says it can do.",
    closed("One capability.", {
      id: text("Its id.", { maxLength: 128 }),
      description: optionalText("In words."),
      input_schema_ref: optionalText("Where the schema of its input is."),
    }),
  ),
});

export const anomaly = section("Watches the rate of failures.", {
  enabled: flag("Switches it on.", true),
  min_volume: integer("Fewer calls are not judged.", { minimum: 1, default: 10 }),
  min_rate: share("A lower share of failures is never an anomaly.", 0.2),
  baseline_factor: number("Times the usual rate.", { minimum: 1, default: 3 }),
});
