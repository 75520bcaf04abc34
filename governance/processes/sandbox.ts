// Builds the command lines of bubblewrap and prlimit.

/** Limits of one command; the kernel enforces them. */
export interface ProcessLimits {
  readonly processes: number;
  /** Bytes of writable memory of one process. */
  readonly memoryBytes: number;
  /** Bytes of one file. */
  readonly fileBytes: number;
  readonly openFiles: number;
}

/** A folder that a command may change. */
export interface WritableFolder {
  /** Absolute path of the root of all workspaces on this machine. */
  readonly root: string;
  /** The folder, from `root`; empty for `root` itself. */
  readonly below: string;
  /** Where the command begins, from the folder; empty for the folder itself. */
  readonly cwd: string;
  /** Names in the folder that the command must not see. */
  readonly hidden: readonly string[];
}

/** Absolute paths of the programs; null if not installed. */
export interface Programs {
  readonly bwrap: string | null;
  readonly prlimit: string | null;
}

/** Where the folder of a command is in its sandbox. */
const sandboxFolder = "/workspace";
/** Bytes of each folder of a sandbox that is in memory. */
const temporaryBytes = 256 * 1024 * 1024;

/** System folders, and the files of /etc that programs need. Others of /etc may hold secrets that svc can read. */
const systemPaths = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
const etcPaths = [
  "alternatives",
  "ca-certificates",
  "crypto-policies",
  "fonts",
  "group",
  "hosts",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "nsswitch.conf",
  "passwd",
  "pki",
  "protocols",
  "resolv.conf",
  "services",
  "ssl",
  "terminfo",
];

/** Returns the absolute path of a folder. */
export function pathOf({ root, below }: Pick<WritableFolder, "root" | "below">): string {
  return below === "" ? root : `${root}/${below}`;
}

/** Returns `argv` under limits; unchanged where prlimit is missing. */
export function limited(argv: readonly string[], limits: ProcessLimits, { prlimit }: Programs): readonly string[] {
  if (prlimit === null) return argv;
  const { processes, memoryBytes, fileBytes, openFiles } = limits;
  return [
    ...[prlimit, `--nproc=${processes}`, `--data=${memoryBytes}`, `--fsize=${fileBytes}`, `--nofile=${openFiles}`],
    ...["--core=0", "--"],
    ...argv,
  ];
}

/**
 * Returns `argv` under bubblewrap: with processes of its own, the system read-only, and no file of the host but `folder` writable.
 * `readable` are further folders of the host.
 */
export function sandboxed(
  argv: readonly string[],
  bwrap: string,
  {
    folder,
    cwd,
    readable,
    hasNetwork,
  }: {
    readonly folder: WritableFolder | null;
    /** Where a command without a folder begins. */
    readonly cwd: string;
    readonly readable: readonly string[];
    readonly hasNetwork: boolean;
  },
): readonly string[] {
  const seen = (path: string): string[] => ["--ro-bind-try", path, path];
  return [
    ...[bwrap, "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ...(hasNetwork ? [] : ["--unshare-net"]),
    ...["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"],
    ...[...systemPaths, ...etcPaths.map((name) => `/etc/${name}`)].flatMap(seen),
    ...["--proc", "/proc", "--dev", "/dev", ...inMemory("/dev/shm"), "--remount-ro", "/dev", ...inMemory("/tmp")],
    // After the temporary folder, which would hide those below it.
    ...readable.flatMap(seen),
    ...(folder === null
      ? ["--chdir", cwd]
      : [
          ...["--bind", pathOf(folder), sandboxFolder],
          ...folder.hidden.flatMap((name) => inMemory(`${sandboxFolder}/${name}`)),
          ...["--chdir", folder.cwd === "" ? sandboxFolder : `${sandboxFolder}/${folder.cwd}`],
        ]),
    // The root of the sandbox is a file system in memory.
    ...["--remount-ro", "/", "--"],
    ...argv,
  ];
}

function inMemory(path: string): string[] {
  return ["--size", String(temporaryBytes), "--tmpfs", path];
}
