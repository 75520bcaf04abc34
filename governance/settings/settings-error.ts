/** One setting that does not stand. The reason never repeats the value. */
export interface SettingIssue {
  readonly name: string;
  readonly reason: string;
}

/** The environment holds settings that do not stand, all of them listed. */
export class SettingsError extends Error {
  readonly issues: readonly SettingIssue[];

  constructor(issues: readonly SettingIssue[]) {
    super(issues.map(({ name, reason }) => `${name} ${reason}`).join("\n"));
    this.name = "SettingsError";
    this.issues = issues;
  }
}
