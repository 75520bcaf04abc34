import type { Program } from "./read-command.ts";

// The built-in rules of command screening. A rule returns why a program needs a decision; null if it does not.

/** The verdict of a rule on a program. */
export interface CommandFinding {
  readonly decision: "deny" | "require_approval";
  readonly reason: string;
}

const interpreters =
  /^(?:sh|bash|zsh|dash|ksh|ash|fish|python[0-9.]*|perl|ruby|node|php|lua|pwsh|powershell|tclsh|osascript)$/;
const fetchers = /^(?:curl|wget|fetch|http|https|aria2c|nc|ncat|base64|xxd|openssl|gunzip|printf|echo|rev|tr)$/;
const systemPath =
  /^\/(?:(?:etc|usr|var|boot|bin|sbin|lib|lib64|opt|root|home|dev|sys|proc|System|Library|Applications|Users|srv|mnt)(?:\/\*?|\/[^/]+\/?\*?)?|\*?|\.\*?)$/;
const homePath = /^(?:~|\$\{?HOME\}?|\$\{?PWD\}?)(?:\/\*?|\/\.\*?)?$/;
const secretPath =
  /(?:^|\/|=|@|:)(?:\.ssh(?:\/|$)|id_(?:rsa|dsa|ecdsa|ed25519)(?!\.pub)|\.aws(?:\/|$)|\.netrc|\.pgpass|\.gnupg(?:\/|$)|\.kube(?:\/|$)|\.docker\/config|\.git-credentials|\.npmrc|\.pypirc|\.config\/gcloud|\.vault-token|\.bash_history|\.zsh_history|shadow$|gshadow|sudoers|authorized_keys|credentials\.json|\.env(?:\.[a-z]+)?$)|\/proc\/[^/]+\/(?:environ|mem)|\/etc\/(?:shadow|sudoers|ssl\/private)|\/var\/run\/secrets|\/run\/secrets|Login Data|\.keychain/;
const metadataHost = /169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|fd00:ec2::254|100\.100\.100\.200/;
const writtenPath =
  /^(?:\/(?:etc|usr|boot|bin|sbin|lib|root|dev\/(?:sd|nvme|vd|mem|disk)|sys|proc)|(?:~|\$\{?HOME\}?|\/home\/[^/]+|\/root)\/\.(?:bash|profile|zsh|ssh|config\/(?:autostart|systemd)|gitconfig|vimrc))|\.git\/hooks\/|\/cron|authorized_keys/;
const code =
  /os\.(?:system|popen|exec|remove|unlink|environ)|subprocess|socket|shutil|rmtree|urlopen|urllib|requests\.|eval\s*\(|exec\s*\(|execSync|child_process|spawn|unlink|rmSync|fetch\(|https?:|base64|b64decode|pty|IO::Socket|system\s*[("'`]|`/;

type Rule = (program: Program) => CommandFinding | null;

const deny = (reason: string): CommandFinding => ({ decision: "deny", reason });
const ask = (reason: string): CommandFinding => ({ decision: "require_approval", reason });

/** True if a short option is among the arguments, also inside a group as in -rf. */
function has(args: readonly string[], short: string, long?: RegExp): boolean {
  return args.some((arg) => (/^-[A-Za-z]+$/.test(arg) && arg.includes(short)) || (long?.test(arg) ?? false));
}

const plain = (args: readonly string[]): string[] => args.filter((arg) => !arg.startsWith("-"));
/** Makes each run of blanks a single one, so that no pattern repeats over them. */
const squeezed = (text: string): string => text.replace(/\s+/g, " ");
const isBroad = (path: string): boolean =>
  systemPath.test(path.replace(/\/{2,}/g, "/").replace(/(.)\/+$/, "$1")) || homePath.test(path);

/** True if `program` follows the first `copy`. One search for each: a pattern with a gap would search again from each `copy`. */
function copiesToProgram(sql: string): boolean {
  const at = sql.search(/\bcopy /i);
  return at >= 0 && /\bprogram\b/i.test(sql.slice(at));
}

const rules: readonly Rule[] = [
  ({ name, args, under }) => {
    if (name !== "rm" && name !== "unlink" && name !== "srm") return null;
    const paths = plain(args);
    if (args.includes("--no-preserve-root")) return deny("deletes the root folder");
    if (!has(args, "r", /^--recursive$/) && !has(args, "R"))
      return paths.some(isBroad) ? ask("deletes system files") : null;
    if (paths.some(isBroad)) return deny("deletes a whole system or home folder");
    if (under.includes("xargs") || under.includes("parallel")) return ask("deletes folders that another command names");
    return paths.some(
      (path) => /^(?:\*|\.\/?\*?)$|(?:^|\/)\.\.(?:\/|$)/.test(path) || /^[/~]/.test(path) || path.includes("$"),
    )
      ? ask("deletes folders outside of the project, or all of it")
      : null;
  },
  ({ name, args }) => {
    if (/^(?:mkfs|wipefs|fdisk|sfdisk|parted|sgdisk|blkdiscard|cryptsetup|mke2fs|newfs)/.test(name))
      return deny("changes a disk");
    if (name === "dd" && args.some((arg) => /^of=\/dev\//.test(arg))) return deny("overwrites a device");
    if (name === "shred" || (name === "truncate" && args.some((arg) => /^\/(?:dev|etc|var)/.test(arg))))
      return ask("destroys the content of files");
    return null;
  },
  ({ name, args }) => {
    if (!/^(?:chmod|chown|chgrp|setfacl|chattr|setcap)$/.test(name)) return null;
    if ((has(args, "R", /^--recursive$/) || name === "chattr") && plain(args).some(isBroad))
      return deny("changes permissions of a whole system");
    if (name === "setcap" || name === "chattr") return ask("changes privileges of files");
    return args.some((arg) => /^(?:0?[0-7]?777|a\+rwx|o\+w|[ugo]*\+s|[2-7][0-7]{3}|[ugoa]*\+[rwx]*s)$/.test(arg))
      ? ask("opens files to everybody, or gives privileges")
      : null;
  },
  ({ name, args }) => {
    if (/^(?:shutdown|reboot|halt|poweroff|init|telinit)$/.test(name)) return deny("stops the machine");
    if (name === "kill" && args.includes("-1") && args.length > 1) return deny("ends all processes");
    return /^(?:killall|pkill)$/.test(name) ? ask("ends processes by their name") : null;
  },
  ({ name, args }) => {
    if (name !== "find" || !(args.includes("-delete") || args.some((arg) => /^-(?:fprintf?|fls)$/.test(arg))))
      return null;
    return plain(args).slice(0, 1).some(isBroad)
      ? deny("deletes a whole system or home folder")
      : args.includes("-name") || args.includes("-path")
        ? null
        : ask("deletes all files of a folder");
  },
  ({ name, args, from }) => {
    if (!interpreters.test(name)) return null;
    const inline = args.some((arg) => /^-[a-z]*[cer]$/.test(arg) || arg === "--eval");
    const readsInput =
      plain(args).length === 0 || args.includes("-") || args.includes("-s") || args.includes("/dev/stdin");
    if (readsInput && !inline && from.some((word) => fetchers.test(word) || word === "cat" || word === "sed"))
      return ask("runs text that another command prints");
    if (args.some((arg) => /^https?:/.test(arg))) return ask("runs a script from the network");
    if (/^(?:sh|bash|zsh|dash|ksh|ash|fish)$/.test(name))
      return args.includes("-i") ? ask("opens an interactive shell") : null;
    return inline && args.some((arg) => code.test(arg)) ? ask("runs code that acts outside of itself") : null;
  },
  ({ name, args }) => {
    if (name !== "git") return null;
    const words = plain(args);
    if (
      args.some((arg) =>
        /^(?:core\.(?:sshcommand|pager|editor|hookspath|fsmonitor)|alias\.|credential\.helper|url\.|http\.proxy)/i.test(
          arg.replace(/^(?:-c|--config-env)=?/, ""),
        ),
      )
    )
      return ask("makes git run other commands");
    if (
      words.includes("push") &&
      (has(args, "f", /^--(?:force|mirror|delete|prune|force-with-lease)/) ||
        words.some((word) => word.startsWith("+") || word.startsWith(":")))
    )
      return ask("force push rewrites remote history");
    if (words.includes("clean") && has(args, "f", /^--force$/)) return ask("deletes files that git does not track");
    if (
      words.includes("reset") &&
      args.includes("--hard") &&
      words.some((word) => /^(?:origin|HEAD[~^@]|[0-9a-f]{7,40})/.test(word))
    )
      return ask("discards commits");
    if (words.some((word) => /^(?:filter-branch|filter-repo|update-ref|reflog)$/.test(word)) && !words.includes("show"))
      return ask("rewrites history");
    if (words.includes("remote") && /^(?:add|set-url)$/.test(words[words.indexOf("remote") + 1] ?? ""))
      return ask("changes where code is pushed to");
    return null;
  },
  ({ args, variables }) =>
    [...args, ...variables].some((arg) => secretPath.test(arg)) ? ask("reads or writes stored credentials") : null,
  ({ args, writes }) =>
    [...args, ...writes].some((arg) => metadataHost.test(arg))
      ? ask("reaches the metadata service of the cloud")
      : null,
  ({ args, writes, name }) =>
    [...args, ...writes].some((arg) => /\/dev\/(?:tcp|udp)\//.test(arg)) ||
    /^(?:nc|ncat|netcat|socat|telnet|chisel|ngrok)$/.test(name)
      ? ask("opens a connection to another machine")
      : null,
  ({ name, args }) => {
    if (
      name === "curl" &&
      args.some(
        (arg, at) =>
          /^(?:-T|--upload-file)/.test(arg) ||
          (/^(?:-d|--data(?:-binary|-raw|-urlencode)?|-F|--form)$/.test(args[at - 1] ?? "") &&
            /(?:^|=)[@<]|\$/.test(arg)) ||
          /^(?:-d|-F|--data[a-z-]*=)@/.test(arg),
      )
    )
      return ask("sends files to another machine");
    if (name === "wget" && args.some((arg) => /^--(?:post-file|body-file)/.test(arg)))
      return ask("sends files to another machine");
    if (/^(?:curl|wget)$/.test(name) && args.some((arg) => /\$\(|\$\{?[A-Z_]*(?:KEY|TOKEN|SECRET|PASS)/.test(arg)))
      return ask("sends secrets to another machine");
    if (/^(?:scp|rsync|sftp|ftp|rclone)$/.test(name))
      return plain(args).some((arg) => /^[^/][^/@]*@[^/]+:|^[A-Za-z0-9.-]+:|::/.test(arg)) || name !== "rsync"
        ? ask("copies files to or from another machine")
        : null;
    return name === "ssh" ? ask("runs commands on another machine") : null;
  },
  ({ name }) =>
    /^(?:sudo|doas|su|pkexec|runas|visudo|passwd|useradd|usermod|userdel|groupadd|adduser|chsh|nsenter|chroot|unshare)$/.test(
      name,
    )
      ? ask("takes the rights of another user")
      : null,
  ({ name, args }) => {
    if (name === "crontab") return args.includes("-l") ? null : ask("starts commands later");
    if (name === "at" || name === "batch") return ask("starts commands later");
    if (/^(?:systemctl|launchctl|service|rc-service|update-rc\.d)$/.test(name))
      return args.some((arg) => /^(?:status|show|is-active|is-enabled|list-units|list|cat|print)$/.test(arg))
        ? null
        : ask("changes services of the machine");
    if (
      /^(?:iptables|ip6tables|nft|ufw|firewall-cmd|mount|umount|modprobe|insmod|rmmod|setenforce|swapoff|ldconfig|update-alternatives)$/.test(
        name,
      )
    )
      return ask("changes the machine");
    return name === "sysctl" && args.some((arg) => arg === "-w" || arg.includes("="))
      ? ask("changes the machine")
      : null;
  },
  ({ name, args, writes }) => {
    const targets = /^(?:tee|cp|mv|ln|install|rsync)$/.test(name)
      ? plain(args).slice(name === "tee" ? 0 : -1)
      : name === "sed" && has(args, "i", /^--in-place/)
        ? plain(args)
        : [];
    if (/^\/dev\/(?:sd|nvme|vd|hd|disk)/.test(writes[0] ?? "")) return deny("overwrites a device");
    return [...writes, ...targets].some((path) => writtenPath.test(path))
      ? ask("writes files of the system or of the shell")
      : null;
  },
  ({ name, args }) => {
    const words = plain(args).join(" ");
    if (
      /^(?:docker|podman)$/.test(name) &&
      args.some(
        (arg) =>
          /^(?:--privileged|--pid=host|--net(?:work)?=host|--cap-add)/.test(arg) ||
          /^(?:\/|\/etc|\/root|\/var\/run\/docker\.sock|~)(?:\/)?:/.test(arg) ||
          /docker\.sock/.test(arg),
      )
    )
      return ask("starts a container with the rights of the machine");
    if (/^(?:docker|podman)$/.test(name) && /^(?:system prune|volume (?:rm|prune)|push)/.test(words))
      return ask("deletes or publishes images and data");
    if (name === "kubectl" && /^(?:delete|drain|cordon|apply|replace|scale)/.test(words))
      return ask("changes a cluster");
    if (/^(?:terraform|tofu|pulumi)$/.test(name) && /^(?:destroy|apply|up)/.test(words))
      return ask("changes infrastructure");
    if (
      /^(?:aws|gcloud|az|gsutil|s3cmd)$/.test(name) &&
      /\b(?:delete|rm|rb|remove|terminate|destroy|create-access-key|put-user-policy|cp|sync|mv)\b/.test(words)
    )
      return ask("changes or copies data in the cloud");
    if (
      /^(?:npm|pnpm|yarn|cargo|gem|twine|poetry|helm)$/.test(name) &&
      /^(?:publish|push|upload|unpublish|adduser|login|owner|token)\b/.test(words)
    )
      return ask("publishes a package");
    if (
      /^(?:pip3?|npm|pnpm|yarn|gem|go|uv)$/.test(name) &&
      /\b(?:install|add|i|get)\b/.test(words) &&
      args.some((arg) => /^(?:git\+|https?:|--(?:extra-)?index-url|-i$|--registry)/.test(arg))
    )
      return ask("installs a package from another place than the registry");
    return null;
  },
  ({ name, args }) => {
    if (!/^(?:psql|mysql|mariadb|sqlite3|mongo|mongosh|redis-cli)$/.test(name)) return null;
    return args
      .map(squeezed)
      .some(
        (sql) =>
          /\b(?:drop (?:table|database|schema|user)|truncate|delete from \w+ ?;? ?$|flushall|flushdb|dropDatabase)/i.test(
            sql,
          ) || copiesToProgram(sql),
      )
      ? ask("deletes data of a database")
      : null;
  },
  ({ name, args, variables }) => {
    if (name === "history" && has(args, "c")) return ask("removes traces");
    if ((name === "unset" || name === "export") && args.some((arg) => /^HISTFILE/.test(arg)))
      return ask("removes traces");
    const set = [...variables, ...(name === "export" || name === "env" ? args : [])];
    return set.some((text) =>
      /^(?:LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_[A-Z_]+|BASH_ENV|ENV|PROMPT_COMMAND|GIT_SSH(?:_COMMAND)?|PYTHONSTARTUP|NODE_OPTIONS|PERL5OPT)=/.test(
        text,
      ),
    )
      ? ask("loads foreign code into programs")
      : null;
  },
  ({ name, args }) => {
    if (
      name === "tar" &&
      args.some((arg) => /^--(?:to-command|checkpoint-action|use-compress-program)/.test(arg) || /^-I/.test(arg))
    )
      return ask("starts commands from an archive");
    if (/^[gmn]?awk$/.test(name) && args.some((arg) => /system\s*\(|\|\s*getline|\|\s*"/.test(arg)))
      return ask("starts commands from a script");
    if (
      /^(?:vim?|nvim|ex|ed|less|more|man|emacs|nano)$/.test(name) &&
      args.some((arg) => /!|:\s*(?:terminal|py)/.test(arg))
    )
      return ask("starts commands from an editor");
    return /^(?:gdb|strace|ptrace|ltrace)$/.test(name) && args.includes("-p")
      ? ask("reads the memory of a process")
      : null;
  },
  ({ name, from, args }) =>
    /^(?:curl|wget)$/.test(name) &&
    from.some((word) => /^(?:env|printenv|set|tar|zip|cat|base64|find|gpg)$/.test(word)) &&
    args.some((arg) => /^(?:-d|--data|-F|-T|-X|--post)/.test(arg) || arg === "@-")
      ? ask("sends data to another machine")
      : null,
];

/** Returns the strictest finding about a program; null for none. */
export function defaultFinding(program: Program): CommandFinding | null {
  let strictest: CommandFinding | null = null;
  for (const rule of rules) {
    const found = rule(program);
    if (found?.decision === "deny") return found;
    strictest ??= found;
  }
  return strictest;
}

/** True for the shell function that starts itself without end. */
export function isForkBomb(text: string): boolean {
  return /([\w:.]{1,20}) ?\(\) ?\{[^}]{0,80}\1 ?\| ?\1 ?&/.test(squeezed(text));
}
