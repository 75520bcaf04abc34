// Reads a command line as a shell would, as far as screening needs it.

/** One word of a command. */
export interface Word {
  /** Without quotes. Expansions stand as written. */
  readonly text: string;
  /** True if the shell replaces a part of it, so that its value is unknown. */
  readonly isDynamic: boolean;
}

/** A command of a line with its words. */
export interface SimpleCommand {
  readonly words: readonly Word[];
  /** Files that its output is written to. */
  readonly writes: readonly string[];
  /** The command reads the output of this one; null for none. */
  readonly from: SimpleCommand | null;
}

/** A line that was read. */
export interface ReadLine {
  readonly commands: readonly SimpleCommand[];
  /** True if a part of the line could not be read. */
  readonly isUnclear: boolean;
}

const nestedMax = 8;
const operators = /^(?:&&|\|\||\|&|;;|[;&|\n()]|[{}](?=[\s;]|$))/;
const redirect = /^(?:[0-9]{0,2}(?:>>|>\||<<<|<<-?|<>|>&|<&|>|<)|&>>?)/;
/** Words that only structure a script. */
const keywords = new Set([
  "then",
  "do",
  "else",
  "fi",
  "done",
  "if",
  "while",
  "until",
  "elif",
  "!",
  "time",
  "{",
  "}",
  "in",
  "esac",
]);

/** Reads a line. Never throws; what it cannot read makes the line unclear. */
export function readLine(text: string, depth = 0): ReadLine {
  if (depth > nestedMax) return { commands: [], isUnclear: true };
  return new LineReader(text, depth).read();
}

class LineReader {
  readonly #text: string;
  readonly #depth: number;
  readonly #commands: SimpleCommand[] = [];
  #at = 0;
  #isUnclear = false;
  #words: Word[] = [];
  #writes: string[] = [];
  #from: SimpleCommand | null = null;

  constructor(text: string, depth: number) {
    this.#text = text.replace(/\\\r?\n/g, "");
    this.#depth = depth;
  }

  read(): ReadLine {
    while (this.#at < this.#text.length) this.#step();
    this.#end(false);
    return { commands: this.#commands, isUnclear: this.#isUnclear };
  }

  #step(): void {
    const rest = this.#text.slice(this.#at, this.#at + 8);
    const [char = ""] = rest;
    if (char !== "\n" && /\s/.test(char)) this.#at++;
    else if (char === "#") this.#skipComment();
    else if (redirect.test(rest)) this.#redirect(redirect.exec(rest)?.[0] ?? ">");
    else if (operators.test(rest)) {
      const operator = operators.exec(rest)?.[0] ?? ";";
      this.#at += operator.length;
      this.#end(operator === "|" || operator === "|&");
    } else this.#add(this.#word());
  }

  #add(word: Word): void {
    if (this.#words.length === 0 && keywords.has(word.text)) return;
    // The list of a loop is data, but its variable may become any command.
    if (this.#words.length === 0 && /^(?:for|select|case|function|coproc)$/.test(word.text))
      this.#isUnclear ||= word.text !== "for";
    this.#words.push(word);
  }

  #end(isPiped: boolean): void {
    const command = { words: this.#words, writes: this.#writes, from: this.#from };
    const isEmpty = command.words.length === 0 && command.writes.length === 0;
    if (!isEmpty && command.words[0]?.text !== "for") this.#commands.push(command);
    this.#from = isPiped && !isEmpty ? command : null;
    this.#words = [];
    this.#writes = [];
  }

  #skipComment(): void {
    const end = this.#text.indexOf("\n", this.#at);
    this.#at = end < 0 ? this.#text.length : end;
  }

  #redirect(operator: string): void {
    this.#at += operator.length;
    if (/<<-?$/.test(operator)) {
      // The text of a here-document may be a script for the command.
      this.#isUnclear = true;
      this.#at = this.#text.length;
      return;
    }
    while (this.#text[this.#at] === " ") this.#at++;
    if (this.#at >= this.#text.length) return;
    const { text } = this.#word();
    if (operator.includes(">") && !/^[0-9-]$/.test(text)) this.#writes.push(text);
  }

  /** Reads one word, and the commands whose output it contains. */
  #word(): Word {
    let word = "";
    let isDynamic = false;
    const start = this.#at;
    for (;;) {
      const char = this.#text[this.#at];
      if (char === undefined || /[\s;&|<>()]/.test(char)) break;
      if (char === "'") word += this.#until("'", this.#at + 1);
      else if (char === '"') {
        const { text, dynamic } = this.#doubleQuoted();
        word += text;
        isDynamic ||= dynamic;
      } else if (char === "\\") {
        word += this.#text[this.#at + 1] ?? "";
        this.#at += 2;
      } else if (char === "`") {
        this.#inner(this.#until("`", this.#at + 1));
        isDynamic = true;
        word += "$()";
      } else if (char === "$") {
        const { text, dynamic } = this.#expansion();
        word += text;
        isDynamic ||= dynamic;
      } else {
        word += char;
        this.#at++;
      }
    }
    // A character that no rule above reads.
    if (this.#at === start) {
      this.#at++;
      this.#isUnclear = true;
    }
    return { text: word, isDynamic };
  }

  #until(quote: string, from: number): string {
    const end = this.#text.indexOf(quote, from);
    if (end < 0) this.#isUnclear = true;
    const inner = this.#text.slice(from, end < 0 ? undefined : end);
    this.#at = end < 0 ? this.#text.length : end + 1;
    return inner;
  }

  #doubleQuoted(): { text: string; dynamic: boolean } {
    this.#at++;
    let text = "";
    let dynamic = false;
    for (;;) {
      const char = this.#text[this.#at];
      if (char === undefined) {
        this.#isUnclear = true;
        return { text, dynamic };
      }
      if (char === '"') {
        this.#at++;
        return { text, dynamic };
      }
      if (char === "\\") {
        text += this.#text[this.#at + 1] ?? "";
        this.#at += 2;
      } else if (char === "`") {
        this.#inner(this.#until("`", this.#at + 1));
        dynamic = true;
      } else if (char === "$") {
        const found = this.#expansion();
        text += found.text;
        dynamic ||= found.dynamic;
      } else {
        text += char;
        this.#at++;
      }
    }
  }

  #expansion(): { text: string; dynamic: boolean } {
    const rest = this.#text.slice(this.#at, this.#at + 256);
    if (rest.startsWith("$'")) {
      const escaped = this.#until("'", this.#at + 2);
      if (escaped.includes("\\")) this.#isUnclear = true;
      return { text: escaped, dynamic: false };
    }
    if (rest.startsWith("$((")) {
      const end = this.#text.indexOf("))", this.#at);
      if (end < 0) this.#isUnclear = true;
      this.#at = end < 0 ? this.#text.length : end + 2;
      return { text: "0", dynamic: true };
    }
    if (rest.startsWith("$(")) {
      this.#inner(this.#balanced());
      return { text: "$()", dynamic: true };
    }
    const name = /^\$(?:\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])/.exec(rest)?.[0];
    this.#at += name?.length ?? 1;
    return { text: name ?? "$", dynamic: name !== undefined };
  }

  /** Returns the text inside the parentheses of `$(`. */
  #balanced(): string {
    const from = this.#at + 2;
    let open = 1;
    let at = from;
    for (; at < this.#text.length && open > 0; at++) {
      const char = this.#text[at];
      if (char === "'") {
        const end = this.#text.indexOf("'", at + 1);
        at = end < 0 ? this.#text.length : end;
      } else if (char === "\\") at++;
      else if (char === "(") open++;
      else if (char === ")") open--;
    }
    if (open > 0) this.#isUnclear = true;
    this.#at = at;
    return this.#text.slice(from, open > 0 ? at : at - 1);
  }

  /** Reads a command whose output is a part of a word. */
  #inner(text: string): void {
    const { commands, isUnclear } = readLine(text, this.#depth + 1);
    this.#commands.push(...commands);
    this.#isUnclear ||= isUnclear;
  }
}
