// Screens of the console that others add to those of svc.

/** A screen of the console, which a module draws. */
export interface ConsoleScreen {
  /** Lower-case letters, digits and -. Its address is `#/<name>`. */
  readonly name: string;
  readonly title: string;
  /** A drawing of `console/parts/icon.js` by its name, or the path of an own drawing on a grid of 24, which begins with M. */
  readonly icon: string;
  /** The route that the screen reads, such as `GET /notes`. The screen is dimmed for callers who lack its scopes. */
  readonly route: string;
  /** Path of the module below the folder. It exports the component `Screen`. */
  readonly module: string;
  /** True for a screen that others lead to, and that the navigation leaves out. */
  readonly isHidden?: boolean;
}

/** Screens, and the folder of their modules. */
export interface ConsoleAddition {
  /** Folder of the modules, at most two folders deep. The console serves its files with the ending .js. */
  readonly folder: URL;
  /** In the order of the navigation, after the screens of svc. */
  readonly screens: readonly ConsoleScreen[];
}

/** An addition with the name of its owner, below which its files are served. */
export interface OwnedAddition extends ConsoleAddition {
  readonly name: string;
}

/** The names of the screens of svc, as `console/screens/screens.js` has them. */
export const ownScreens: readonly string[] = [
  ...["chat", "inbox", "threads", "runs", "run", "workflows", "agents", "knowledge", "skills", "quality", "usage"],
  ...["audit", "health"],
];

/** The module of the console that lists added screens. It is empty in the repository. */
export const addedScreensModule = "console/screens/added.js";

/** Returns the text of that module for these additions. */
export function addedScreens(additions: readonly OwnedAddition[]): string {
  const entries = additions.flatMap(({ name: owner, screens }) =>
    screens.map(({ module, ...screen }) => {
      const path = JSON.stringify(`../../plugins/${owner}/${module}`);
      return `  { ...${JSON.stringify(screen)}, load: () => import(${path}) },\n`;
    }),
  );
  return `export const added = [\n${entries.join("")}];\n`;
}
