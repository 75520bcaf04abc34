import { Type } from "../../bus/type.ts";
import { closed, list, nullable, optionalText, text, texts } from "../fields/fields.ts";
import { manifestNameCharsMax, manifestNamePattern } from "../fields/names.ts";

export const metadata = closed("Name and presentation of the agent.", {
  name: text("The manifest's id; also the model value of OpenAI clients.", {
    maxLength: manifestNameCharsMax,
    pattern: manifestNamePattern,
    patternHelp: "may hold letters, digits, . _ and - only, and not be one or two dots",
  }),
  version: Type.String({ description: "Free text for people; the store counts its own versions.", default: "1.0.0" }),
  description: optionalText("Shown in lists of models and on the agent card."),
  tags: texts("Search tags."),
  starters: list(
    "Example messages that a client may offer.",
    closed("One opening.", {
      title: text("Label of the button.", { maxLength: 60 }),
      prompt: text("The message that is sent.", { maxLength: 2000 }),
    }),
    { maxItems: 8 },
  ),
  greeting: nullable(
    closed("Greeting that a client may show on an empty thread; plain text.", {
      headline: text("First line.", { maxLength: 80 }),
      subtitle: Type.Optional(text("Second line.", { maxLength: 300 })),
    }),
  ),
});
