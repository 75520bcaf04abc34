/** A SKILL.md. */
export function skillText(
  name: string,
  description: string,
  { body = "# Help\n\n1. Do it.\n", more = "" }: { readonly body?: string; readonly more?: string } = {},
): string {
  return `---\nname: ${name}\ndescription: ${description}\n${more}---\n${body}`;
}
