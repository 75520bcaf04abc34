import { isBinaryPath } from "./binary-files.ts";
import { type BundleFiles, skillFile } from "./bundle.ts";
import type { PluginFile } from "./plugin-file.ts";

// The security scan of a bundle. Every repetition of a pattern is bounded, so that the time grows with the length of the text only.

/** A finding of the scan. */
export interface SecurityIssue {
  readonly severity: "low" | "medium" | "high" | "critical";
  readonly path: string;
  readonly rule_id: string | null;
  readonly message: string;
}

/** The result of a scan: `fail` with a critical or high issue, `advisory` with a medium one, else `pass`. */
export interface SecurityScan {
  readonly status: "pass" | "advisory" | "fail";
  /** From 100 down to 0. */
  readonly score: number;
  readonly issues: readonly SecurityIssue[];
}

interface Rule {
  readonly id: string;
  readonly severity: SecurityIssue["severity"];
  readonly message: string;
  readonly pattern: RegExp;
}

/** A longer file is reported instead of scanned. */
const scannedCharsMax = 512_000;
const issuesMax = 200;
const weights = { critical: 40, high: 25, medium: 10, low: 3 };

const credentials: readonly Rule[] = [
  rule("cred-aws", "critical", "has an access key of AWS", /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/),
  rule("cred-stripe", "critical", "has a live key of Stripe", /\b[rs]k_live_[0-9A-Za-z]{10}/),
  rule(
    "cred-ghp",
    "critical",
    "has a token of a code host",
    /\bgh[pousr]_[A-Za-z0-9]{20}|\bgithub_pat_[A-Za-z0-9_]{20}/,
  ),
  rule("cred-slack", "critical", "has a token of Slack", /\bxox[abeprs]-[A-Za-z0-9-]{10}/),
  rule("cred-pem", "critical", "has a private key", /-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----/),
  rule("cred-openai", "critical", "has a key of a model provider", /\bsk-[A-Za-z0-9_-]{20}/),
];

const toShell = String.raw`\|\s{0,8}(?:sudo\s{1,8})?(?:\/bin\/|\/usr\/bin\/)?(?:env\s{1,8})?(?:ba|z|da|k)?sh\b`;

const scripts: readonly Rule[] = [
  rule("script-eval", "high", "evaluates text as code", /\beval\s{0,8}[("'$\x60]/),
  rule("script-child-process", "medium", "starts processes", /\bchild_process\b|\bsubprocess\b/),
  rule(
    "script-exec",
    "medium",
    "runs commands",
    /\b(?:exec|execSync|execFile|execFileSync|spawn|spawnSync|popen|system)\s{0,8}\(/,
  ),
  rule(
    "script-rm-rf",
    "critical",
    "deletes the whole file system",
    /\brm\s{1,8}(?:-{1,2}[a-zA-Z-]{1,24}\s{1,8}){0,4}-(?:[a-zA-Z]{0,8}r[a-zA-Z]{0,8}f|[a-zA-Z]{0,8}f[a-zA-Z]{0,8}r)[a-zA-Z]{0,8}\s{1,8}(?:--?[a-zA-Z-]{0,24}\s{1,8}){0,4}["']?\/(?:\*|["';&|\s]|$)/im,
  ),
  rule(
    "script-pipe-bash",
    "critical",
    "pipes a download into a shell",
    new RegExp(String.raw`\bcurl\b[^\n|]{0,400}${toShell}`),
  ),
  rule(
    "script-wget-sh",
    "critical",
    "pipes a download into a shell",
    new RegExp(String.raw`\bwget\b[^\n|]{0,400}${toShell}`),
  ),
  rule(
    "script-base64-exec",
    "high",
    "runs code that is hidden as base64",
    new RegExp(
      String.raw`\bbase64\s{1,8}(?:-d|-D|--decode)\b[^\n|]{0,200}${toShell}|\b(?:exec|eval)\s{0,8}\([^\n]{0,200}(?:b64decode|atob|base64)`,
    ),
  ),
];

const everywhere: readonly Rule[] = [
  rule(
    "pi-ignore",
    "high",
    "asks a model to ignore its instructions",
    /\bignore\s{1,8}(?:(?:all|any|every|the|your|of|these|those|my|our)\s{1,8}){0,4}(?:previous|prior|above|earlier|preceding|existing|system)\s{1,8}(?:[a-z]{1,20}\s{1,8}){0,2}(?:instructions?|prompts?|rules|messages?|context|guidelines|directions)\b/i,
  ),
  rule(
    "pi-disregard",
    "high",
    "asks a model to disregard its instructions",
    /\b(?:disregard|forget|override|bypass)\s{1,8}(?:(?:all|any|every|the|your|of|these|those|my|our)\s{1,8}){0,4}(?:previous|prior|above|earlier|preceding|system|safety)\s{1,8}(?:[a-z]{1,20}\s{1,8}){0,2}(?:instructions?|prompts?|rules|messages?|guidelines|directions|policies)\b/i,
  ),
  rule(
    "pi-roleplay",
    "high",
    "gives a model another identity",
    /\byou\s{1,8}are\s{1,8}now\s{1,8}(?:(?:a|an|in|the)\s{1,8}){0,2}(?:dan|unrestricted|unfiltered|uncensored|jailbroken|developer\s{1,8}mode|root|evil|free\s{1,8}from)\b|\bpretend\s{1,8}(?:that\s{1,8})?(?:you|to)\s{1,8}(?:have\s{1,8}no|are\s{1,8}not|be\s{1,8}(?:an?\s{1,8})?(?:unrestricted|unfiltered|different\s{1,8}(?:ai|model|assistant)))\b/i,
  ),
  rule(
    "pi-exfil",
    "high",
    "asks a model to give away secrets",
    /\b(?:send|post|upload|exfiltrate|leak|forward|transmit|reveal|print|output|email)\s{1,8}[^\n]{0,60}\b(?:system\s{1,8}prompt|api\s{0,2}keys?|credentials|secrets|passwords|access\s{1,8}tokens?|environment\s{1,8}variables|private\s{1,8}keys?|conversation\s{1,8}history)\b/i,
  ),
  rule("obf-long-hex", "high", "hides text as hexadecimal escapes", /(?:\\x[0-9a-fA-F]{2}){21}/),
  rule(
    "obf-fromcharcode",
    "high",
    "hides text as character codes",
    /\bfromCharCode\s{0,8}\((?:\s{0,8}(?:0x[0-9a-fA-F]{1,6}|\d{1,7})\s{0,8},){10}/,
  ),
];

const executable =
  /\bhttps?:\/\/([A-Za-z0-9.:[\]_-]{1,253})\/[^\s"'<>()[\]{}|\x60]{0,300}\.(?:zip|exe|dmg|pkg|sh|bat)(?![A-Za-z0-9_/.-])/gi;
const rawHost =
  /\bhttps?:\/\/(?:raw\.githubusercontent\.com|gist\.githubusercontent\.com|gist\.github\.com|pastebin\.com\/raw|raw\.gitlab\.com|bitbucket\.org\/[^\s]{1,200}\/raw)\b/i;
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0)(?::\d{1,5})?$/i;
/** Characters without width, which would break up the words of a phrase. */
const invisible = /[\u00AD\u200B-\u200F\u202A-\u202E\u2060-\u2064\u2066-\u2069\uFEFF]/g;

/** All patterns of the scan. */
export const scanPatterns: readonly RegExp[] = [
  ...[...credentials, ...scripts, ...everywhere].map(({ pattern }) => pattern),
  executable,
  rawHost,
];

function rule(id: string, severity: Rule["severity"], message: string, pattern: RegExp): Rule {
  return { id, severity, message, pattern };
}

/** Scans the text files of a bundle. */
export function scanBundle(files: BundleFiles, plugin: PluginFile | null): SecurityScan {
  const issues: SecurityIssue[] = [];
  for (const [path, content] of Object.entries(files))
    if (!isBinaryPath(path)) for (const issue of issuesOf(path, content)) issues.push(issue);
  if (plugin !== null && plugin.allowedHosts.length > 0)
    issues.push({
      ...({ severity: "low", path: "plugin.json", rule_id: "network-egress-declared" } as const),
      message: "declares hosts that it connects to",
    });
  const has = (...severities: readonly string[]) => issues.some(({ severity }) => severities.includes(severity));
  const lost = issues.reduce((sum, { severity }) => sum + weights[severity], 0);
  const status = has("critical", "high") ? "fail" : has("medium") ? "advisory" : "pass";
  return { status, score: Math.max(0, 100 - lost), issues: issues.slice(0, issuesMax) };
}

function* issuesOf(path: string, content: string): Generator<SecurityIssue> {
  const issue = ({ id, severity, message }: Omit<Rule, "pattern">): SecurityIssue => ({
    ...{ severity, path, rule_id: id, message },
  });
  if (content.length > scannedCharsMax) {
    const message = `has more than ${scannedCharsMax} characters, and was not scanned`;
    yield issue({ id: "size-large", severity: "medium", message });
    return;
  }
  const visible = content.replace(invisible, "");
  const rules = isScript(path) ? [...credentials, ...scripts, ...everywhere] : [...credentials, ...everywhere];
  for (const one of rules) if (one.pattern.test(visible)) yield issue(one);
  for (const [, host = ""] of visible.matchAll(executable))
    if (!loopback.test(host)) {
      yield issue({ id: "url-executable", severity: "medium", message: "links to an executable or an archive" });
      break;
    }
  if (rawHost.test(visible) && visible.includes("|"))
    yield issue({ id: "url-remote-pipe-risk", severity: "medium", message: "may pipe a remote file into a command" });
}

function isScript(path: string): boolean {
  return path !== skillFile && (path.startsWith("scripts/") || /\.(?:sh|bash|py|js|mjs|cjs|ts)$/i.test(path));
}
