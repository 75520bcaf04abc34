import { closed, nullable, optionalText, text, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

export const githubPublish = defineSection({
  fields: {
    github_publish: unbuilt(
      nullable(
        closed("Lets the agent publish commits.", {
          repo: nullable(
            text("owner/name.", {
              maxLength: 256,
              pattern: "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$",
              patternHelp: "must be owner/name",
            }),
          ),
          auth: text("secret:NAME.", { maxLength: 4096 }),
          base: text("Target branch.", { maxLength: 256, default: "main" }),
          branch_prefix: optionalText("Prefix of every branch name.", { maxLength: 256 }),
        }),
      ),
    ),
  },
});
