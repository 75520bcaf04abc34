/** One invalid setting. The reason never repeats the value. */
export interface SettingIssue {
  readonly name: string;
  readonly reason: string;
}

/** Lists all invalid settings of the environment. */
export class SettingsError extends Error {
  readonly issues: readonly SettingIssue[];

  constructor(issues: readonly SettingIssue[]) {
    super(issues.map(({ name, reason }) => `${name} ${reason}`).join("\n"));
    this.name = "SettingsError";
    this.issues = issues;
  }
}
