/** The form of a skill's name, as in the Agent Skills format: lower-case letters, digits and single hyphens. */
const namePattern = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
const nameCharsMax = 64;

/** True if a skill can have this name. */
export function isSkillName(name: string): boolean {
  return name.length <= nameCharsMax && namePattern.test(name);
}
