import { closed, flag, list, nullable, objectKey, optionalText, section, text } from "./fields.ts";

/** Most characters of one part of the system prompt. */
export const promptPartCharsMax = 200_000;

const part = { maxLength: promptPartCharsMax };

export const systemPrompt = section("What the model is told before the conversation.", {
  inline: optionalText("The agent's own instructions.", part),
  soul: flag("Puts the tenant's soul prompt first."),
  base: optionalText("Instructions before the inline ones.", part),
  files: list("Texts of the object store that follow.", objectKey("Object key.")),
  system_md: nullable(text("Stands in the place of soul, base, inline and files.", { ...part, minLength: 0 })),
  append_system_md: nullable(text("Follows all of these.", { ...part, minLength: 0 })),
  include_tool_guidance: flag("Adds the lines of tool_guidance.", true),
});

export const prompts = list(
  "Templates; a name of letters, digits, - and _ is also a slash command.",
  closed("One template.", {
    name: text("Its name; case does not matter.", { maxLength: 64 }),
    body: optionalText("The text; $1 is the first argument, $@ all of them, and $1 in braces may bring a default."),
    file: nullable(objectKey("Object key of the body, used when body is empty.")),
    description: optionalText("Shown in menus.", { maxLength: 200 }),
    argument_hint: optionalText("Shown behind the name.", { maxLength: 80 }),
  }),
);

export const outputStyles = section("Ways to answer that a conversation may pick from.", {
  default: nullable(text("Name of the style of conversations that picked none.", { maxLength: 64 })),
  styles: list(
    "The styles.",
    closed("One style.", {
      name: text("Its name; case does not matter.", {
        maxLength: 64,
        pattern: "^[A-Za-z0-9_-]+$",
        patternHelp: "may hold letters, digits, - and _ only",
      }),
      description: optionalText("Shown in menus.", { maxLength: 200 }),
      prompt: text("Added at the end of the system prompt.", { maxLength: 16_000 }),
    }),
    { maxItems: 16 },
  ),
});
