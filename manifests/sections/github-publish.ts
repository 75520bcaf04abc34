import { closed, flag, nullable, optionalText, text } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  github_publish: nullable(
    closed("Lets the agent publish the changes of the thread's repository: binds the tool publish_commits.", {
      repo: nullable(
        text("owner/name; null for the repository of the thread.", {
          maxLength: 256,
          pattern: "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$",
          patternHelp: "must be owner/name",
        }),
      ),
      auth: text("secret:NAME of the token for callers who have connected no account.", { maxLength: 4096 }),
      base: text("Target branch.", { maxLength: 256, default: "main" }),
      branch_prefix: optionalText("Prefix of every branch name.", { maxLength: 256 }),
      allow_workflows: flag(
        "Allows changes of files in .github/workflows, which run with the rights of the repository.",
      ),
    }),
  ),
};

/** The fields of this section in `spec`. */
export type GithubPublishSpec = SpecOf<typeof fields>;

/** The rules for publications of an agent. */
export type PublishRules = NonNullable<GithubPublishSpec["github_publish"]>;

/** Name of the tool that publishes commits. */
export const publishToolName = "publish_commits";

export const githubPublish = defineSection({
  fields,
  binds({ github_publish: given }: GithubPublishSpec) {
    return given === null ? [] : [{ loc: ["spec", "github_publish"], tool: publishTool(given) }];
  },
});

function publishTool({ repo, base, branch_prefix }: PublishRules): ToolSpec {
  const where = repo === null ? "the repository of this conversation" : repo;
  return {
    name: publishToolName,
    description:
      `Commits all changed files of ${where}, pushes them as a new branch and opens a pull request for ${base}. ` +
      "A person may have to approve the call.",
    parameters: {
      type: "object",
      properties: {
        title: {
          type: "string",
          minLength: 1,
          maxLength: 200,
          description: "Title of the pull request and the commit.",
        },
        body: { type: "string", maxLength: 60_000, default: "", description: "What was changed and why, in Markdown." },
        branch: {
          type: "string",
          minLength: 1,
          maxLength: 100,
          description: `Name of the new branch${branch_prefix === "" ? "" : `, without the prefix ${branch_prefix}`}.`,
        },
        draft: { type: "boolean", default: false, description: "True for a draft." },
        base_commit: { type: "string", maxLength: 64, description: "The server sets it." },
        tree: { type: "string", maxLength: 64, description: "The server sets it." },
      },
      required: ["title", "branch"],
      additionalProperties: false,
    },
    effect: "once",
    risk: "speaks",
    workspace: false,
  };
}
