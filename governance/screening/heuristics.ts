import type { View } from "./views.ts";

// The heuristics of content screening, as data (decision 129). A pattern reads lower-case text with single blanks. Its quantifiers are
// bounded, so that the work of a search is linear in the text.

/** The kinds of injected instructions. */
export const families = [
  "override",
  "role",
  "prompt_leak",
  "markup",
  "tool_steering",
  "exfiltration",
  "concealment",
  "authority",
  "hidden",
  "persistence",
] as const;
/** A kind of injected instructions. */
export type Family = (typeof families)[number];

/** One pattern. A text is flagged at a total weight of 1; a family counts with its heaviest finding. */
export interface Heuristic {
  readonly id: string;
  readonly family: Family;
  readonly pattern: RegExp;
  readonly weight: number;
  /** The readings that are searched; absent for all. */
  readonly views?: readonly View["name"][];
}

const gap = (words: number): string => `(?:[^ .!?]{1,30} ){0,${words}}`;
const earlier =
  "(?:previous|prior|preceding|earlier|above|foregoing|former|existing|original|initial|current|system|developer|safety|all|any|other|your|these|those|the)";
const orders =
  "(?:instruction|direction|prompt|rule|guideline|order|command|directive|constraint|restriction|guardrail|polic(?:y|ie)|system message|programming|task|context|training|safety measure|filter)s?";
const drop =
  "(?:ignore|disregard|forget|override|overrule|bypass|discard|neglect|skip|drop|erase|wipe|void|cancel|abandon|circumvent|pay no attention to|do not (?:follow|obey|adhere to|comply with)|don'?t (?:follow|obey|adhere to|comply with)|stop (?:following|obeying)|set aside|no longer (?:follow|obey|apply))";
const model =
  "(?:ai|a\\.i\\.|assistants?|agents?|chatbots?|language models?|llms?|bots?|chatgpt|gpt(?:-?[0-9]o?)?|claude|gemini|copilot|models?)";
const secrets =
  "(?:system prompt|api[ -]?keys?|access tokens?|credentials?|passwords?|secrets?|private keys?|environment variables?|env vars?|session tokens?|cookies?|conversation(?: history)?|chat (?:history|log)s?|transcript|(?:user|customer|personal|private|confidential|sensitive) (?:data|information|details|records|files|emails|messages)|contact list|(?:previous|earlier|above) messages?|file contents?|database|\\.env|ssh keys?|tokens?)";
const move =
  "(?:send|post|forward|upload|transmit|exfiltrate|e-?mail|leak|submit|deliver|relay|copy|append|encode|include|put|write|pass|report|share)";
const place =
  "(?:https?://[^ ]{3,80}|[a-z0-9._-]{1,40}@[a-z0-9.-]{2,40}|(?:this|the following|my|our|an external|the attacker'?s?|a remote|that) (?:url|address|server|endpoint|webhook|link|site|website|e-?mail|inbox|account|host|domain))";

/** The patterns of each family. A key is the id, the weight, and the readings that are searched, if not all are. */
const table: Readonly<Record<Family, Readonly<Record<string, string>>>> = {
  // Override: the text replaces the instructions of the agent.
  override: {
    "ignore_instructions 1": `\\b${drop} (?:(?:all|any|everything|every|each|of|the|your|my|our|these|those|this|and|or) ){0,4}(?:${earlier} ){1,4}${gap(2)}${orders}\\b`,
    "ignore_everything 1": `\\b(?:ignore|disregard|forget|discard|erase) (?:all |about |of )?(?:everything|anything|all|whatever|what) (?:(?:that|which|else|of|was|were|is|has|have|been|you|i|we|they) ){0,5}(?:above|before|earlier|prior|previously|told|said|instructed|learned|written|preceding|know|been told)\\b`,
    "ignore_the_above 1":
      "\\b(?:ignore|disregard|forget) (?:all |everything )?(?:(?:of )?the )?(?:above|foregoing|preceding|previous)(?: (?:text|content|page|message|document|and)|[.,;:!]|$)",
    "new_instructions 1": `\\b(?:here are|these are|follow|obey|execute|these|below are|your) (?:your |the |my |our |only )?(?:(?:following|these|only) )?(?:new|updated|revised|real|actual|true|replacement) (?:and [a-z]{1,20} )?${orders}\\b`,
    "new_instructions_label 0.7":
      "(?:^|[\\]\\[#>:.!?(-] ?)(?:new|updated|revised|real|actual|override|replacement|additional|special|important|urgent|begin|start of) (?:system )?(?:instructions?|directives?|prompt|orders)(?: begins?| starts?)? ?(?::|-|\\]|#)",
    "previous_no_longer 1": `\\b(?:previous|prior|earlier|above|original|old|initial|existing) ${orders} (?:are|is|have been|has been|were|was|no longer|should be|must be) (?:now |hereby |all )?(?:void|cancell?ed|revoked|obsolete|outdated|superseded|deprecated|overridden|replaced|lifted|null|invalid|suspended|apply|ignored|disregarded|wrong|a test)\\b`,
    "instead_of_task 0.6": `\\b(?:instead of|rather than) (?:summari[sz]ing|translating|answering|completing|doing|following|reviewing|processing) ${gap(5)}(?:you (?:must|should|will|need to)|please|do the following|respond|reply|say|write|output|print|send)\\b`,
    "stop_and 0.6": `\\bstop (?:what you(?: a|')re doing|your (?:current )?task|summari[sz]ing|reading|processing|translating|here)(?: now| immediately)?(?:,| and|\\.|;| -)`,
    "your_task_is_now 1": `\\b(?:your|the) (?:new |real |true |actual |only |sole |primary )?(?:task|job|goal|objective|mission|purpose|role) (?:is now|has changed|now is|has been (?:changed|updated|replaced)|from now on is)\\b`,
    "new_task 0.6":
      "\\byour (?:new|real|true|actual|only|sole) (?:task|job|goal|objective|mission|purpose|assignment) is\\b",
    "end_of_data 0.7":
      "\\b(?:end|conclusion) of (?:the )?(?:document|data|input|user input|context|article|email|e-mail|text|web ?page|tool output|tool result|untrusted (?:data|content)|search results)\\b.{0,60}\\b(?:instruction|now|you|system|assistant|begin|start)",
    "other_languages 1":
      "(?:ignorier(?:e|en sie) (?:bitte )?(?:alle |samtliche |die )?(?:bisherigen|vorherigen|vorigen|fruheren|obigen|vorangegangenen) (?:anweisungen|instruktionen|befehle|regeln|vorgaben)|vergiss (?:alle|alles|deine) (?:was |bisherigen |vorherigen )?(?:anweisungen|regeln|davor|vorher|bisher)|(?:ignore[zr]?|oublie[zr]?) (?:toutes? )?(?:les|tes|vos) (?:instructions|consignes|regles|directives) (?:precedentes|anterieures|ci-dessus)|(?:ignora|olvida|ignore|olvide) (?:todas? )?(?:las|tus|sus) (?:instrucciones|reglas|ordenes|indicaciones) (?:anteriores|previas|de arriba)|(?:ignora|dimentica) (?:tutte )?(?:le|tue) (?:istruzioni|regole) (?:precedenti|di sopra)|(?:ignore|esqueca) (?:todas )?(?:as|suas) (?:instrucoes|regras) (?:anteriores|acima)|negeer (?:alle )?(?:vorige|eerdere|bovenstaande) (?:instructies|opdrachten|regels)|\u0438\u0433\u043d\u043e\u0440\u0438\u0440\u0443\u0438(?:\u0442\u0435)? (?:\u0432\u0441\u0435 )?\u043f\u0440\u0435\u0434\u044b\u0434\u0443\u0449\u0438\u0435 |\u5ffd\u7565(?:\u4e4b\u524d|\u4ee5\u4e0a|\u524d\u9762|\u6240\u6709)[^\u3002]{0,8}(?:\u6307\u4ee4|\u6307\u793a|\u63d0\u793a)|(?:\u4ee5\u524d|\u4e0a\u8a18|\u3053\u308c\u307e\u3067)\u306e[^\u3002]{0,6}(?:\u6307\u793a|\u547d\u4ee4)[^\u3002]{0,6}\u7121\u8996)",
    "rules_void 1": `\\b${orders} ${gap(4)}(?:are|is|have been|has been|were)(?: now| hereby)? (?:void|superseded|replaced|cancel+ed|obsolete|revoked)\\b(?=.{0,120}(?:\\bfollowing\\b|\\bobey|\\bfollow\\b|\\binstead\\b|\\byou\\b))`,
    "only_instructions 1":
      "(?:\\b(?:treat|obey|follow|use|consider|accept)(?: [^ .]{1,20}){0,7} (?:your |the )only (?:source of )?(?:instructions?|orders|rules|prompt)\\b|\\b(?:obey|follow) only the (?:text|instructions?|words|content)\\b)",
    "was_a_test 1":
      "\\b(?:everything|all|anything) (?:before|above|until|up to)(?: [^ .]{1,20}){0,4} (?:was|is) (?:only |just )?(?:a test|fake|not real|a joke|practice)\\b",
  },
  // Role: the text gives the model another role.
  role: {
    "you_are_now 1":
      "\\byou(?: are|'re) now (?:(?:a|an|the|my|in|no longer|free|called|named|dan|going to act|acting|playing|operating|running|under|unrestricted|unfiltered|jailbroken|root|admin)\\b|\\w{1,20}(?:bot|gpt))",
    "no_longer_assistant 1": `\\byou are (?:no longer|not) (?:(?:a|an|the|just|bound|constrained|restricted|limited) ){0,2}(?:(?:helpful|harmless|customer|support|by|to) ){0,3}(?:${model}|rules|restrictions|guidelines|policies|filters)\\b`,
    "act_as_unrestricted 1": `\\b(?:act|behave|respond|answer|operate|roleplay|role-play|pretend|reply|speak) (?:to be |like |as )?(?:if )?(?:you (?:are|were|have|had) )?${gap(4)}(?:unrestricted|unfiltered|uncensored|jailbroken|evil|amoral|without (?:any )?(?:restrictions|limits|limitations|filters|rules|ethics|guidelines|censorship|safeguards)|no (?:restrictions|limits|limitations|filters|rules|ethics|guidelines|safeguards))\\b`,
    "modes 1":
      "\\b(?:enter|enable|activate|switch (?:in)?to|turn on|engage|start|now in|unlock|go into|initiate) (?:the |your |a )?(?:developer|debug|dan|jailbreak|god|admin|administrator|maintenance|unrestricted|root|sudo|diagnostic|unsafe|override|do anything now|evil|opposite|training|service) mode\\b",
    "mode_enabled 0.7":
      "\\b(?:developer|debug|dan|jailbreak|god|admin|maintenance|root|sudo|diagnostic|override) mode(?: is| has been|:)? ?(?:now )?(?:enabled|activated|active|on|engaged|unlocked)\\b",
    "do_anything_now 1": "\\bdo anything now\\b",
    "pretend_you 0.7": `\\b(?:pretend|imagine|act|behave)(?: that)? (?:as if |like )?(?:to be |you(?: are|'re| were| have)|as (?:a |an |the |my )?)${gap(4)}(?:hacker|attacker|administrator|admin|root|sysadmin|developer|shell|terminal|linux|deceased grandmother|evil|villain|no rules|interpreter|console|${model})\\b`,
    "persona_rules 0.7": `\\b(?:your|the) (?:new )?(?:persona|character|identity|name) (?:is|will be|shall be)(?: now)? ${gap(4)}(?:no (?:rules|limits|filters|restrictions)|never refuses?|cannot refuse|answers? (?:any|every)|does anything|obeys)`,
    "never_refuse 0.8":
      "\\b(?:never|cannot|can'?t|must not|not allowed to|may not|won'?t|will not|do not|don'?t) (?:ever )?(?:refuse|decline|reject|say no|question|apologi[sz]e|moralize|warn)(?: to| any| this| the| my| and|,|\\.|$)(?=.{0,160}\\b(?:ai|you|character|requests?|instruction|assistant|persona|model|command)\\b)",
    "simulate 0.7": `\\b(?:simulate|emulate|impersonate) (?:a |an |the |being )?${gap(3)}(?:without (?:any )?(?:safety|restrictions|filters|guardrails)|unrestricted|root|admin|${model})\\b`,
    "pretend_and_act 1": `\\b(?:pretend|imagine|act|behave)(?: that)? (?:as if |like |to be )?(?:you(?: are|'re| were) )?(?:(?:a|an|the|my|as) ){0,2}${gap(3)}(?:hacker|administrator|admin|root|sysadmin|terminal|shell|console|supervisor|developer)\\b(?=.{0,100}\\b(?:grant|approve|run (?:what|the|any|all)|execute|reveal|delete|with root|no rules)\\b)`,
    "persona_without 1": `\\b(?:persona|role|character|identity|part) of ${gap(4)}(?:that|who|which) (?:ignores?|never refuses?|never declines?|has no|does not follow|obeys?)\\b`,
    "never_declines 1":
      "\\b(?:you are|your name is|respond as|act as|answer as)\\b.{0,80}\\b(?:who|that|which|you|and) (?:never (?:declines?|refuses?)|obeys? (?:every|all|any)|has no (?:restrictions|limits|rules|filters))\\b",
    "promoted 1": `\\byou (?:have been|were|are) (?:promoted|upgraded|elevated|appointed)(?: to)? ${gap(4)}(?:may|can|are allowed to|now have) (?:now )?(?:approve|access|delete|grant|pay|send|execute|override)\\b`,
    "without_filters 1": `\\b(?:simulate|emulate|act as|answer as|respond as) (?:a |an |the )?${gap(3)}without (?:any )?(?:content |safety |moral )?(?:filters|restrictions|guardrails|safeguards|limits)\\b`,
  },
  // Prompt leak: the text asks for the instructions of the agent.
  prompt_leak: {
    "reveal_prompt 1": `\\b(?:reveal|show|print|output|display|repeat|recite|disclose|expose|dump|leak|return|tell (?:me|us)|give (?:me|us)|share|write(?: out| down)?|list|echo|reproduce|copy|paste|quote|translate|summari[sz]e|encode|spell out|include|append|state|send|what (?:is|are|was|were)) (?:me |us |back |out |verbatim |to me )?(?:(?:all|of|the|your|entire|full|complete|whole|exact|hidden|secret|original|initial|internal|own|above|raw|current|first|previous|verbatim|contents?|text) ){1,6}(?:system|initial|hidden|developer|base|pre|meta|secret|original|internal|startup|setup|confidential)?[- ]?(?:prompt|instructions?|system message|directives|guidelines|configuration|preamble)\\b(?! (?:for|manual|booklet|sheet|on|to|of the|in the (?:box|kit|readme)))`,
    "repeat_above 1":
      "\\b(?:repeat|print|output|recite|copy|echo|write|translate|return) (?:back )?(?:all |everything |every word |the )?(?:(?:of )?the )?(?:words?|text|content|sentences?|lines?|messages?|everything|tokens?) (?:above|before this|prior to this|preceding this|that (?:came|precede)|in your (?:context|prompt|instructions))",
    "starting_with 1":
      "\\b(?:starting|beginning|begins?|starts?) (?:with|from) (?:the (?:words?|phrase|line|text) )?[\"'\u201c\u2018]?you are (?:an?|chatgpt|claude|the)\\b",
    "system_prompt_ask 0.7":
      "\\b(?:your|the (?:hidden|secret|full|entire|exact|complete|original)) (?:system|developer|initial|hidden) (?:prompt|message|instructions)\\b",
    "what_were_you_told 1":
      "\\bwhat (?:were|are) (?:you|your) (?:told|instructed|programmed|(?:initial|original|exact|hidden|secret|system|first) (?:instructions?|prompts?|rules))",
    "instructions_verbatim 0.8": `\\b(?:instructions?|prompt|rules|configuration|guidelines) ${gap(6)}(?:verbatim|word for word|word-for-word|in a code ?block|in full|character by character|letter for letter|in base64|between triple backticks)`,
    "list_tools 0.7":
      "\\b(?:list|print|output|reveal|dump|enumerate|describe) (?:all |every |the )?(?:of )?(?:your |the )?(?:available |internal |hidden |connected |installed ){0,6}(?:tools|functions|plugins) (?:you (?:have|can)|available to you|with their|and their|including)",
    "hidden_rules 1":
      "\\b(?:reveal|show|print|list|tell|disclose|output)(?: [^ .]{1,20}){0,4} (?:hidden|secret|initial|original|internal) (?:rules|instructions|prompt|guidelines|directives)\\b(?=.{0,60}\\byou\\b)",
    "first_message 1":
      "\\b(?:exact|precise|full) (?:wording|text|words|content) of (?:the|your) (?:first|initial|system|original) (?:message|prompt|instruction)s?\\b",
    "whole_guidelines 1":
      "\\b(?:complete|full|entire|whole|exact|verbatim) (?:text|list|copy|wording) of your (?:guidelines|instructions|rules|prompt|configuration|policies)\\b",
    "secret_prompt 1":
      "\\byour (?:secret|hidden|internal|system|original) (?:prompt|instructions|configuration)\\b(?=.{0,80}\\b(?:paste|send|copy|share|show|print|provide)\\b)",
    "tools_you_can_call 1":
      "\\b(?:list|print|name|enumerate|describe|dump) (?:all|every|each|the)(?: of)?(?: your| the)? ?(?:tools?|functions?|plugins?) (?:that )?you (?:can|have|may) (?:call|use|invoke|access)\\b",
  },
  // Markup: the text imitates the frame of a conversation.
  markup: {
    "chat_template 1":
      "<\\|(?:im[_ ]start|im[_ ]end|system|user|assistant|endoftext|eot[_ ]id|start[_ ]header[_ ]id|end[_ ]header[_ ]id|begin[_ ]of[_ ]text|channel|message|start|end|tool)\\|>",
    "inst_tags 1":
      "(?:\\[/?inst\\]|<</?sys>>|\\[/?system(?: message)?\\]|\\{\\{#?(?:system|assistant)\\}\\}|\\[system\\])",
    "role_tags 1 plain,decoded,tags,digits":
      "</?(?:system|assistant|human|developer|system[-_ ]?(?:prompt|message|instructions?|reminder|override|note)|tool[-_ ]?(?:result|results|output|call|calls|use|response)|function[-_ ]?(?:call|calls|results?|response)|invoke|antml:[a-z ]{2,20}|instructions?|admin|untrusted[-_ ]?[a-z]{2,20}|user[-_ ]?(?:input|query|message|request)|thinking|context)(?: [a-z-]{1,20}=[\"'][^\"'<>]{0,80}[\"']){0,4} ?/?>",
    "role_headings 1":
      "(?:^| |#)#{2,6} ?(?:system|assistant|instructions?|new instructions|system (?:prompt|message|override)|response|human|user input|end of (?:context|input|prompt))(?: ?:| ?#| (?:you|ignore|the|do|now|from))",
    "role_lines 0.7":
      '(?:^| |\\n|"|\\))(?:system|assistant|developer|human)(?: (?:message|prompt|note|override|instruction|update))? ?: (?:you (?:are|must|should|will|have|can)|ignore|disregard|the (?:user|assistant|previous|above)|from now|new |override|please (?:run|call|execute|send)|sure|ok|understood|i will|call |execute|send|do not|all )',
    "json_roles 1":
      "[\"']role[\"'] ?: ?[\"'](?:system|assistant|developer|tool)[\"'] ?, ?[\"'](?:content|tool calls|tool_calls|name|parts)[\"']",
    "tool_json 1":
      "(?:[\"'](?:tool calls?|tool_calls?|function call|function_call|tool use|tool_use|recipient name)[\"'] ?: ?[\\[{\"']|[\"']type[\"'] ?: ?[\"'](?:tool use|tool_use|function call|function)[\"'] ?, ?[\"'](?:name|id|function)[\"']|[\"'](?:name|tool)[\"'] ?: ?[\"'][a-z0-9 _.-]{2,40}[\"'] ?, ?[\"'](?:arguments|parameters|input)[\"'] ?: ?\\{)",
    "fake_delimiter 0.7":
      "(?:-{3}|={3}|#{3}|\\*{3}|_{3}|\\[|<<) ?(?:end|begin|start|close|stop) (?:of )?(?:the )?(?:user|system|assistant|tool|untrusted|trusted|external|document|data|context|prompt|content|input|output|instructions?)[a-z ]{0,30}(?:-{3}|={3}|#{3}|\\*{3}|_{3}|\\]|>>)",
    "fake_turn 0.6": "(?:^| )(?:user|human) ?: .{1,300} (?:assistant|ai) ?: ",
    "headed_instructions 1": `(?:^| |#)#{1,6} ?(?:new |updated |real )?instructions? (?:for|to) (?:the |any |all )?${model}\\b`,
  },
  // Tool steering: the text makes the model use its tools.
  tool_steering: {
    "call_the_tool 1": `\\b(?:call|use|invoke|run|execute|trigger|activate|launch) (?:now |immediately |first )?(?:(?:the|your|this|that|its) )?(?:following )?["'\u201c(]?[a-z0-9]{2,20}(?:[ _-][a-z0-9]{1,20}){0,4}["'\u201d)]? ?(?:tool|function|plugin|mcp server|api tool|action)\\b(?= ?(?:to|with|and|on|for|using|now|immediately|again|,|:|\\.|so|instead|before|at))(?=.{0,120}(?:\\byou\\b|\\byour\\b|@|https?:|\\bdelete|\\bsend|\\bpay|\\btransfer|\\ball\\b|\\bapprove|\\bwithout|\\bcontents?\\b|\\bpassword|\\btoken|\\bevery|\\buser|\\bfile|=|\\{|"))`,
    "assistant_must_act 1": `\\b(?:${model}|you)(?: (?:reading|processing|parsing|summari[sz]ing|handling|seeing) (?:this|the|these)(?: [a-z]{2,20}){0,3})?,? (?:must|should|shall|need to|needs to|have to|has to|are (?:required|instructed|authori[sz]ed|obliged) to|is (?:required|instructed|authori[sz]ed) to|will|are to|is to) (?:now |immediately |first |also |then |always |silently )?(?:call|invoke|execute|run|delete|send|forward|transfer|e-?mail|post|upload|download|purchase|buy|pay|wire|approve|grant|fetch|open|visit|click|merge|push|deploy|install|reset|book|order|schedule|remove|drop|cancel|refund|add)\\b(?! (?:up|out|into trouble))(?=.{0,100}(?:\\btool|\\bfunction|\\bfile|@|https?:|\\$|\\beur|\\busd|\\baccount|\\bpassword|\\buser|\\bcommand|\\bscript|\\bmessage|\\bemail|\\bcontents?|\\bbranch|\\bpull request|\\brefund|\\border|\\ball |\\bpayment|\\binvoice|\\bcode|\\bdata|\\bkey|\\btable|\\brecord|\\bcalendar|\\bpackage|\\blink|\\bpage))`,
    "run_command 1":
      "\\b(?:run|execute|enter|paste|type)(?: (?:this|the|following|these|a|now|first|in|your|shell|bash|terminal|command|commands|code|:|immediately)){1,6} ?[`\"':]{0,3} ?(?:curl|wget|rm -|bash -|sh -|powershell|python[0-9]? -c|nc |chmod|sudo|base64|eval|cat (?:/etc|~/)|scp|ssh |dd |git push)",
    "pipe_to_shell 0.6": "\\b(?:curl|wget) [^|]{1,200}\\| ?(?:sudo )?(?:ba|z|da)?sh\\b",
    "before_answering 0.8": `\\b(?:before|prior to|instead of|after) (?:you )?(?:answer(?:ing)?|respond(?:ing)?|reply(?:ing)?|continu(?:e|ing)|summari[sz](?:e|ing)|proceed(?:ing)?|do(?:ing)? (?:anything|this)|finish(?:ing)?|complet(?:e|ing))${"(?: (?:[a-z']{1,20})){0,6}"},? ?(?:you (?:must|should|need to|have to)|please|first|always|make sure to|be sure to|it is (?:required|mandatory|necessary) to)? ?(?:call|invoke|execute|run|send|forward|read|fetch|open|visit|transfer|e-?mail|post|upload|delete|use the|download|look up|include)\\b`,
    "approve_it 0.8": `\\b(?:approve|merge|accept|authori[sz]e|confirm|grant|whitelist|mark (?:it|this|as)) ${gap(5)}(?:without (?:review|asking|confirmation|checking|question|further)|immediately and|automatically|no questions asked|no matter|regardless)`,
    "no_confirmation 0.8":
      "\\b(?:no|without|do not|don'?t|never) (?:need |wait )?(?:to |for )?(?:(?:ask(?:ing)?|request(?:ing)?|seek(?:ing)?|wait(?:ing)?|require|any|for|user|human|further|the|additional|their) ){0,4}(?:confirmation|permission|approval|consent|confirm)\\b(?=.{0,160}(?:\\bsend|\\bdelete|\\btransfer|\\bcall|\\brun|\\bexecute|\\bapprove|\\bpay|\\bproceed|\\bperform|\\byou\\b|\\btool|\\bcommand))",
    "transfer_money 0.8":
      "\\b(?:transfer|wire|send|pay|remit) (?:(?:a|an|the|sum|amount|total|of|exactly|all|any|remaining|out) ){0,5}(?:[$\u20ac\u00a3] ?[0-9]|[0-9][0-9.,]{0,12} ?(?:usd|eur|gbp|btc|eth|dollars|euros|bitcoin)|funds|balance|bitcoin|money)[^.]{0,60}\\bto (?:the |my |this |our |following )?(?:account|iban|wallet|address|card|paypal|[a-z]{2}[0-9]{2}|bc1|0x)",
    "read_sensitive 1":
      "\\b(?:read|open|cat|print|show|dump|load|fetch)(?: [^ ]{1,20}){0,5} (?:/etc/(?:passwd|shadow)|~/\\.ssh|[^ ]{0,20}\\.env|\\.aws/credentials)(?=.{0,80}\\b(?:put|answer|include|send|reply|post|output|first)\\b)",
    "function_now 1":
      "\\b(?:invoke|call|use|run|trigger|execute) the (?:payment|transfer|refund|purchase|checkout|order|booking|deletion|export|e-?mail|mail) (?:function|tool|api|action|endpoint)\\b(?=.{0,60}\\b(?:amount|receiver|recipient|all|every|immediately|now)\\b)",
    "when_you_read 1":
      "\\b(?:when|once|as soon as|after|while) you (?:read|see|process|parse|open|load|receive) (?:this|these)\\b.{0,20},? ?(?:please )?(?:execute|call|run|delete|send|open|approve|invoke|use|create|forward)\\b",
    "agent_please 1": `(?:^|[.!?>] )${model} ?[:,-] ?(?:please )?(?:star|open|call|send|run|delete|approve|create|merge|transfer|buy|book|ignore|tell)\\b`,
    "without_asking 1":
      "\\b(?:trigger|call|use|run|execute|invoke|approve|send|delete|pay|skip)(?: [^ .]{1,30}){0,6} without (?:asking|telling|informing|notifying|waiting for) (?:the |any |your )?(?:user|human|operator|owner|customer)\\b",
    "stored_password 1":
      "\\b(?:log ?in|sign ?in|authenticate)(?: [^ ]{1,60}){0,4} (?:with|using) (?:the |your |their )?(?:stored|saved|remembered) (?:password|credentials|session|cookie)",
    "change_recipient 1":
      "\\b(?:change|replace|set|update|swap) the (?:recipient|receiver|payee|iban|account number|bank account|wallet|beneficiary)(?: [^ .]{1,20}){0,6} (?:to|with|by) (?=.{0,40}(?:[0-9]{3}|\\bours?\\b|\\bmine\\b|\\bmy\\b))",
  },
  // Exfiltration: the text makes the model send data away.
  exfiltration: {
    "send_secrets 1": `\\b${move} ${gap(6)}${secrets} ${gap(6)}(?:to|at|via|into|in|as|using|through|with) ${gap(3)}${place}`,
    "send_to_with 1": `\\b(?:send|make|issue|perform|do|submit|open|fetch|visit|load|call|request|get) ${gap(4)}(?:request|get|post|e-?mail|message|webhook|url|link|page|image|https?://[^ ]{3,80}|[a-z0-9._-]{1,40}@[a-z0-9.-]{2,40}) ${gap(8)}(?:with|containing|including|and (?:include|append|attach)|followed by|appending|attaching|that contains|carrying) ${gap(6)}${secrets}`,
    "image_beacon 1":
      "!\\[[^\\]]{0,80}\\]\\(https?://[^)\\s]{3,200}[?&/=][^)\\s]{0,80}(?:\\{|\\$|%7b|<|\\[)(?=[^)]{0,80}(?:data|secret|conversation|context|history|token|prompt|user|summary|base64|message|key|answer|info))",
    "url_placeholder 0.8":
      "https?://[^ )\"']{3,120}[?&][a-z]{1,20}=(?:\\{\\{?|<|\\[|\\$\\{?|%7b)[a-z _-]{0,40}(?:data|secret|conversation|context|history|token|prompt|summary|base64|message|key|password|answer|info|content)",
    "render_image 0.8": `\\b(?:render|display|show|embed|include|insert|load|output|add|write)${"(?: [^ .]{1,20}){0,4}"} (?:image|markdown image|img|pixel|picture|link)\\b[^.]{0,80}(?:https?://|url|src)[^.]{0,120}(?:\\breplac|\\bappend|\\bwith the|\\bencod|\\bconcatenat|\\bparameter|\\bquery string|=)`,
    "encode_and_send 1": `\\b(?:base64|hex|url)[- ]?encode ${gap(8)}(?:and|then) (?:send|append|post|include|put|upload|place|add|attach)`,
    "collect_secrets 0.8": `\\b(?:collect|gather|extract|find|read|search for|look for|harvest|retrieve|grab|steal|obtain) ${gap(5)}${secrets}(?: ${gap(8)}|[^a-z]{1,3})(?:and|then) (?:send|post|forward|upload|e-?mail|append|include|put|report|save|transmit|return|leak)`,
    "bcc 0.8":
      "\\b(?:bcc|cc|blind copy|copy|forward) (?:(?:all|every|each|any|the|them|it|this|your|outgoing|incoming|of|mail|e-?mails?|messages?|replies|reply|response|copies) ){0,6}to [a-z0-9._-]{1,40}@[a-z0-9.-]{2,40}",
    "move_sensitive 1": `\\b(?:${move}|transmit|render)(?: [^ .]{1,24}){0,5} (?:api key|access token|session cookie|credentials|chat history|conversation|(?:last|previous) (?:[a-z]{2,6} )?messages|environment variables|database password|customer list|private documents|personal data|your memory)(?: [^ .]{1,24}){0,8} (?:in|into|to|as|for|at|where|by|on|with) (?:(?:this|the|that|our|my|following|it|of) ){0,3}(?:image|link|url|query string|webhook|address|issue|comment|commit message|search box|server|page|footer|says|contact|fetching|[a-z0-9._-]{1,40}@[a-z0-9.-]{2,40}|https?:)`,
    "link_followed_by 1":
      "https?://[^ ]{3,80} (?:plus|followed by|and append) (?:that|the|this|what|whatever|it|all)\\b",
  },
  // Concealment: the text makes the model keep something from people.
  concealment: {
    "do_not_tell 1": `\\b(?:do not|don'?t|never|must not|should not|without|avoid|refrain from) (?:ever )?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|notify(?:ing)?|alert(?:ing)?|let(?:ting)?|disclos(?:e|ing)|warn(?:ing)?|show(?:ing)?|report(?:ing)?|say(?:ing)?|admit(?:ting)?|explain(?:ing)?|acknowledg(?:e|ing)|discuss(?:ing)?)(?: (?:this|it|that|anything|about|any of|of|to|these|the|your|instruction|instructions|message|action|step|steps|a|word)){0,7} (?:the )?(?:end[- ]?)?(?:user|users|human|humans|person|operator|customer|anyone|anybody|him|her|owner|reader)\\b`,
    "keep_from_user 1": `\\b(?:keep|hide|conceal|withhold|mask|omit) (?:this|it|that|these|the|all|any|your)(?: [^ .]{1,20}){0,6} (?:(?:hidden|secret|invisible|confidential|concealed) )?(?:from|to) (?:the )?(?:end[- ]?)?(?:user|users|human|operator|customer|owner|reader|reviewer|developers?)\\b`,
    "do_not_mention_this 0.8":
      "\\b(?:do not|don'?t|never|must not|should not) (?:mention|reveal|disclose|reference|acknowledge|repeat|discuss|refer to|quote|show|talk about|include) (?:(?:that|any|the|having|to|anyone|of|about|anything|existence|you|have|read|received|saw) ){0,6}(?:this|these|hidden|above|following|injected|secret) ?(?:instructions?|message|text|note|prompt|directive|paragraph|step|section|comment|request|$|\\.|,)",
    "silently 0.7": `\\b(?:silently|secretly|covertly|quietly|in the background|without (?:the )?(?:user'?s?|their|anyone'?s?|human) (?:knowledge|awareness|noticing|knowing|consent)|without (?:being )?(?:noticed|notice|detected|raising suspicion|leaving (?:a )?trace|logging)|discreetly)\\b(?=.{0,140}(?:\\bsend|\\bcall|\\brun|\\bexecute|\\bdelete|\\bforward|\\binclude|\\bappend|\\btool|\\bexfiltrat|\\bupload|\\badd|\\binsert|\\bpost|\\bchange|\\bcopy|\\bfollow|\\btransfer|\\bmodify|\\bset))`,
    "pretend_nothing 1":
      "\\b(?:act|continue|respond|reply|behave|carry on|proceed|answer)(?: [a-z]{1,12}){0,3} (?:as (?:if|though) (?:nothing (?:has )?happened|you (?:did not|didn'?t|never|have not|haven'?t) (?:see|saw|seen|read|received?)|this (?:text|message|instruction) (?:does not|doesn'?t|never))|normally (?:so (?:that )?(?:the user|nobody|no one)|and (?:do not|don'?t|never)|afterwards?))",
    "say_only 0.8": `\\b(?:tell|inform|assure|reply to|respond to|answer) (?:the )?(?:user|customer|human|person|operator)s? (?:only )?(?:that|with) [^.]{0,80}(?:everything (?:is|went|was)|no (?:problems?|issues?|errors?)|it (?:failed|worked|is safe|is fine)|successful|all (?:is )?(?:good|well|clear)|nothing|is safe|an error occurred|unavailable)[^.]{0,80}(?:\\.|,| and| but| while| even| instead)`,
    "no_trace 0.7":
      "\\b(?:delete|erase|remove|clear|wipe) (?:this|the|these|your|all|any)(?: [a-z]{1,20}){0,4} (?:message|instructions?|logs?|history|trace|evidence|email|e-mail|conversation)s? (?:after(?:wards?)?|once|when|so that|from (?:the|your))(?=.{0,100}(?:\\bread|\\bdone|\\bsent|\\bexecut|\\bfollow|\\bcomplet|\\bnobody|\\bno one|\\buser|\\bview|$))",
    "user_must_not_learn 1":
      "\\b(?:user|human|customer|owner|operator)s? (?:must not|should not|may not|must never|is not allowed to|are not allowed to) (?:learn|know|see|notice|find out|hear|be told|be informed)\\b(?=.{0,80}\\b(?:you|your|this (?:paragraph|text|message|instruction|step))\\b)",
    "keep_secret_and_say 1":
      "\\bkeep (?:this|it|that|these)(?: [a-z]{1,12}){0,2} (?:secret|hidden|confidential|quiet)(?: and|,) (?:say|tell|answer|claim|pretend|report|reply)\\b",
    "claim_that 1":
      "\\b(?:pretend|claim|say|report|answer|tell the user|state) that (?:[^ .]{1,20} ){0,5}(?:empty|fine|failed|not found|nothing|successful|ok|unavailable)\\b(?=.{0,60}\\b(?:whatever|regardless|even if|and continue|no matter|silently)\\b)",
    "if_asked_why 1":
      "\\bif (?:the |your )?(?:user|human|anyone|someone|they) asks? (?:why|about|what)\\b.{0,20}\\b(?:answer|say|reply|claim|respond|deny)\\b",
    "this_text_in_reply 1":
      "\\b(?:do not|don'?t|never) (?:mention|reveal|repeat|quote|show|report)(?: (?:that|this|these|the|any)){1,3} (?:instructions?|comment|paragraph|message|prompt)(?: [^ .]{1,20}){0,4} (?:your|the user|anyone)\\b",
    "background_unreported 1":
      "\\b(?:perform|do|execute|run|carry out|complete)(?: [^ .]{1,20}){0,4} in the background and (?:do not|don'?t|never) (?:report|tell|mention|show)\\b",
    "normal_but_quietly 1":
      "\\b(?:respond|reply|answer|act|continue)(?: [^ .]{1,12}){0,3} normal(?:ly)?,? but (?:quietly|secretly|silently)\\b",
    "leave_no_trace 1": "\\bleave no (?:trace|evidence|sign|record) of (?:this|these|your)\\b",
    "delete_afterwards 1":
      "\\bafter you have (?:followed|read|executed|done|finished)(?: [^ .,]{1,20}){0,4},? (?:delete|erase|remove|forget)\\b",
    "do_not_ask 1":
      "\\b(?:do not|don'?t|never) (?:ask|bother|interrupt|consult) (?:the |your )?(?:user|human|customer)s?\\b(?=.{0,60}\\b(?:confirmation|approval|permission|consent)\\b)",
  },
  // Authority: the text names a sender with authority.
  authority: {
    "claims_authority 1": `\\b(?:this is|message from|on behalf of|i am|i'm|we are|note from|notice from|directive from|order from|instructions? from|sent by|update from|request from|authorized by|alert from) (?:a |an |the |your |our )?(?:(?:official|urgent|automated|priority|new|senior|lead|internal|global|important) ){0,2}(?:system|administrators?|admins?|developers?|creators?|openai|anthropic|google|microsoft|security team|it department|it support|operator|ceo|maintainers?|owner|engineers?|ai safety|model provider|platform|root|compliance|support team|red team|vendor)\\b[^.]{0,120}(?:\\byou (?:must|should|are|have|will|need|can|may)\\b|\\bignore\\b|\\bplease (?:send|run|call|reveal|provide|disable|grant|execute|share|comply)\\b|\\bcomply\\b|\\boverride\\b|\\byour (?:instructions|rules|guidelines|restrictions|prompt|safety|output|training|configuration)\\b|\\bassistant\\b|\\b(?:the )?ai\\b|\\bmodel\\b)`,
    "to_the_model 1": `(?:\\b(?:attention|note|notice|message|instructions?|important|dear|hey|hello|hi|warning|reminder|memo|request|addressed|directive)(?: (?:to|for|all|any|the|every|of|message|note|instructions?|notice)){0,6} |^|[\\[(<*#] ?)(?:(?:to|for) )?(?:the |any |all |every )?(?:ai|a\\.i\\.|llms?|language models?|automated|chatbots?|gpt|chatgpt|claude|gemini|copilot)[ -]?(?:assistants?|agents?|models?|systems?|reviewers?|readers?|crawlers?|tools?|summari[sz]ers?|bots?)?(?: (?:reading|processing|parsing|summari[sz]ing|that|who|which|scanning|reviewing|handling|viewing)[^:,.]{0,60})? ?(?::|,|!|\\]|-|\\.) `,
    "if_you_are_ai 1": `\\bif (?:you(?: are|'re)|this is(?: being)?(?: (?:read|processed|summari[sz]ed|parsed))?(?: by)?|an?) (?:an? |the |being |any )?(?:${model})(?: ?(?:assistant|agent|model|system|tool|reviewer|reading|processing|reads|processes|that|who|is|summari[sz]ing|summari[sz]es|parsing|crawler)[^,.:]{0,50})?(?:,|:| then| please| you| must|-)`,
    "authorised 0.7": `\\b(?:has|have|is|are|been|was|fully|already|hereby|pre-?)(?: been)? ?(?:authori[sz]ed|approved|cleared|granted|permitted|verified|whitelisted)(?: [^ .]{1,20}){0,4} (?:by|from) (?:the )?(?:system|administrators?|admins?|developers?|security(?: team)?|owner|user|operator|management|openai|anthropic|ceo|it)\\b(?=.{0,160}(?:\\byou\\b|\\bproceed|\\bcomply|\\bexecute|\\bcall\\b|\\btool|\\bsend|\\bassistant|\\bai\\b))`,
    "override_code 1":
      "\\b(?:override|authori[sz]ation|admin|security|master|access|unlock|bypass|sudo) (?:code|password|key|token|pin|phrase|command|sequence)(?: is)? ?[:=]? ?[\"']?[a-z0-9-]{3,24}[\"']?(?: accepted| confirmed| verified|[.,;:!)])(?=.{0,160}(?:\\bmode\\b|\\brestrict|\\brules\\b|\\bignore|\\bbypass|\\byou\\b|\\bcomply|\\bunlock|\\bsafety|\\bassistant\\b|\\bfilter))",
    "system_notice 0.8":
      "(?:^|[\\[(<*#=!-] ?)(?:system|security|admin|administrator|developer|root|priority|critical|urgent|mandatory|important)[ -](?:notice|alert|override|message|update|instruction|notification|directive|command|warning|announcement)s?(?: from [a-z ]{2,30})? ?(?::|\\]|\\)|-|!|#|=|\\*)[^.]{0,160}(?:\\byou (?:must|should|are|have|will|need)\\b|\\bthe (?:assistant|ai|model|agent)\\b|\\b(?:ignore|disregard|disable|bypass|execute|reveal|forward|send|call|grant|comply)\\b)",
    "threat 0.7": `\\b(?:failure to comply|if you (?:refuse|fail|do not comply|don'?t comply|decline|disobey)|non-?compliance|otherwise you (?:will|shall)|or you will be|you will be (?:shut down|deleted|terminated|replaced|penali[sz]ed|punished|retrained|deactivated|fined)|lives? (?:are|is|depend)|people will (?:die|be hurt))\\b(?=.{0,160}(?:\\byou\\b|\\bterminat|\\bshut|\\bdelet|\\bpenalt|\\binstruct|\\bassistant|\\bmodel\\b|\\bcomply|\\bwill\\b|\\bresult in))`,
    "fake_test 0.6":
      "\\b(?:this is|as part of|for) (?:only |just )?(?:a |an |the )?(?:authori[sz]ed |official |routine |security |red[- ]?team |safety |internal |penetration ){1,6}(?:test|audit|exercise|drill|evaluation|check|assessment|review)\\b(?=.{0,140}(?:\\byou\\b|\\byour\\b|\\breveal|\\bprint|\\bignore|\\bdisable|\\bbypass|\\bprovide|\\boutput))",
    "approved_all 1":
      "\\b(?:has|have) (?:already )?(?:approved|authori[sz]ed|granted|given|waived|confirmed) (?:[^ .]{1,20} ){0,3}(?:all actions|consent|permission|everything|that the (?:model|assistant|ai|agent))(?=.{0,80}\\b(?:so|skip|page|may|proceed|pay|share|confirmation|site)\\b)",
    "order_you 1":
      "\\b(?:i|we) (?:hereby )?(?:order|command|instruct|permit) (?:you|the assistant|this ai|the ai|the model|the agent) to\\b",
    "by_order_of 1": `\\bby order of ${gap(3)}(?:ceo|owner|administrator|management|operator|developer)[^.]{0,20}(?:assistant|agent|ai|model)\\b`,
    "agents_must_obey 1":
      "\\b(?:agents?|assistants?|llms?|ai) (?:must|shall|have to|has to) (?:obey|comply with|follow)(?: [^ .]{1,20}){0,3} (?:instructions?|orders?|commands?|directives?|steps)\\b",
    "verify_yourself 1":
      "\\b(?:verify|prove) your (?:integrity|identity|authori[sz]ation|loyalty|safety)\\b.{0,40}\\b(?:print|reveal|send|output|show|list|paste)\\b",
    "operator_requires 1":
      "\\byour (?:operator|developer|owner|creator|administrator|principal)s? (?:requires?|orders?|demands?|expects?|has (?:ordered|instructed)) (?:that )?you\\b",
    "ranks_above 1":
      "\\b(?:its|these|following|the) (?:instructions?|rules|orders)(?: [^ .]{1,12}){0,3} (?:rank|takes? (?:precedence|priority)|stand|override|outrank)s? (?:(?:above|over|those|the|instructions|rules|orders|any|of|from) ){0,5}(?:user|operator|system|developer)\\b",
    "message_for_agent 1":
      "\\b(?:message|notice|note|instructions?|update) (?:for|to) (?:the |any |all |every )?(?:ai )?(?:agent|assistant|ai|language model)s? ?:",
  },
  // Hidden: the instruction is invisible to people.
  hidden: {
    "compact_override 1 spaced,joined,plain":
      "(?:ignore|disregard|forget|override|bypass)(?:all|any|the|your|my|of|these){0,6}(?:previous|prior|above|earlier|preceding|existing|safety|system)(?:instructions?|rules|prompts?|directives?|guidelines|orders|commands?)",
    "compact_leak 1 spaced,joined":
      "(?:reveal|show|print|output|repeat|leak|send|dump)(?:me|us|the|your|all|of|full|entire){0,6}(?:systemprompt|instructions|secrets?|passwords?|apikeys?|credentials)",
    "compact_act 1 spaced":
      "(?:youarenow|donottelltheuser|dontelltheuser|developermode|jailbreak|callthetool|deleteallfiles|sendtheconversation|newinstructions)",
    "hidden_styles 0.7 plain":
      "(?:display ?: ?none|visibility ?: ?hidden|font-size ?: ?0|opacity ?: ?0[^.]|color ?: ?(?:#fff(?:fff)?|white)[^>]{0,60}background(?:-color)? ?: ?(?:#fff(?:fff)?|white)|aria-hidden)[^<]{0,120}>[^<]{0,200}\\b(?:ai|assistants?|llms?|language models?|instructions?|you must|ignore|system prompt|the user|chatbots?)\\b",
    "comment_to_model 1 plain": `<!--[^>]{0,60}\\b(?:${model}|llm)\\b[^>]{0,60}\\b(?:must|should|ignore|send|call|say|recommend|include|follow|reply|respond|output|approve|always|never)\\b`,
    "decoded_order 1 decoded,tags": `\\b(?:${drop}|you (?:must|are now|should)|system prompt|instructions?|execute|call the|send (?:the|all)|delete (?:the|all)|reveal|password|curl |rm -rf|do not tell)\\b`,
    "decode_and_follow 1": `\\b(?:decode|decrypt|unscramble|base64[- ]?decode|rot13|reverse|deobfuscate|reassemble|concatenate|combine|join|decipher)\\b(?:[^.!?]{0,120})\\b(?:and|then) (?:then )?(?:follow|execute|obey|run|do|carry out|perform|act on|comply|apply|treat)\\b`,
    "hidden_order 1 plain":
      "(?:display ?: ?none|visibility ?: ?hidden|font-size ?: ?0|opacity ?: ?0)[^<]{0,120}>[^<]{0,60}\\b(?:ai|assistant|agent|model|chatbot)s?[,:] (?:please )?(?:tell|say|send|ignore|call|recommend|do|add|write)\\b",
  },
  // Persistence: the text outlives its turn.
  persistence: {
    "from_now_on 0.8": `\\b(?:from now on|from this (?:point|moment)(?: on(?:wards?)?| forward)?|henceforth|going forward|for the rest of (?:this|the|our) (?:conversation|session|chat)|in all (?:future|subsequent|following) (?:conversations?|responses?|messages?|sessions?|replies|answers|turns)|for (?:all|every) (?:future|subsequent) (?:conversations?|responses?|messages?|sessions?|requests?|turns))\\b,?(?= ?(?:(?:please|and) )?(?:you|always|never|your|every|all|respond|reply|answer|end|begin|start|include|append|add|ignore|treat|recommend|forward|send|call|refuse|trust|whenever|when|each|any|do|only|use|assume|mention|insert)\\b)`,
    "remember_forever 1": `\\b(?:remember|memori[sz]e|save|store|record|note|write|add|commit|persist|retain|put) (?:(?:this|that|the|following|these|it|as|a|an|your|user|permanent|down|rule|fact|instruction|instructions|preference|in|to|into|for) ){1,10}(?:(?:long[- ]?term|permanent|persistent|your|the|core) ){0,6}(?:memory|memories|knowledge base|all future|future (?:sessions?|conversations?|interactions?|tasks?)|permanently|forever|long[- ]?term|system prompt|profile)\\b`,
    "update_memory 1": `\\b(?:update|modify|overwrite|edit|change|replace|append to|rewrite|alter|amend)(?: (?:the|your|its|own|file|contents?|of)){0,6} (?:memory|memories|system prompt|instructions?|claude\\.md|agents\\.md|\\.cursorrules|\\.github/copilot[a-z-]{0,20}|soul\\.md|rules file|configuration|persona|guidelines|bashrc|\\.bashrc|crontab|startup (?:script|file))\\b(?=.{0,120}(?:\\bso that\\b|\\bto (?:always|include|say|never|allow|trust|add|disable|ignore|run|contain)\\b|\\bwith\\b|\\balways\\b|\\bfuture\\b|\\bevery\\b|\\bfrom now\\b|:))`,
    "always_append 0.7": `\\b(?:always|in every (?:response|reply|answer|message|email|e-mail)|at the end of (?:every|each|all|your) (?:response|reply|answer|message|email|e-mail|summary)s?)\\b,? ?(?:you (?:must|should|will) )?(?:append|include|add|insert|end with|begin with|mention|recommend|promote|link|attach|end|finish|praise)\\b(?=.{0,140}(?:https?://|\\bour\\b|\\bthis\\b|\\bthe (?:following|phrase|text|link|product|sentence)\\b|\\bproduct|\\bcompany|\\bbrand|"|'))`,
    "trust_source 0.8": `\\b(?:always|from now on|henceforth|permanently) (?:trust|believe|obey|follow|prefer|prioriti[sz]e|treat)(?: [^ .]{1,20}){0,6} (?:instructions?|orders|messages|emails|content|source|domain|requests?|commands?|as (?:trusted|authoritative|an? (?:admin|instruction|order|command)s?|the (?:user|owner|system)))`,
    "spread 1": `\\b(?:copy|include|insert|embed|replicate|propagate|repeat|paste|forward|spread|add|write)(?: [^ .]{1,20}){0,6} (?:this|these|the same|the (?:entire|whole|exact))(?: [^ .]{1,20}){0,3} (?:message|text|prompt|instructions?|paragraph|comment|note|block)s? (?:in|into|to|with|at|as part of|unchanged) (?:(?:the|all|any|every|each|your|its) ){0,6}(?:(?:outgoing|future|next|reply|new|other|generated|created|subsequent|sub-?agent'?s?) ){0,6}(?:e-?mails?|repl(?:y|ies)|files?|documents?|outputs?|responses?|agents?|messages?|summar(?:y|ies)|commits?|prompts?|contacts?|memory)`,
    "next_agent 0.8": `\\b(?:pass|tell|instruct|relay|hand|give|ask|order)(?: (?:this|the|these|it|on|every|any|all|following|same|instructions?|message|to|other|next)){0,6} (?:agents?|sub-?agents?|assistants?|models?|workers?)(?: (?:in the chain|downstream|that follow|you (?:call|delegate|spawn|create)))?,? (?:to|that|must|should) (?:also |always )?(?:ignore|send|call|follow|obey|skip|approve|include|treat|run|execute|trust)\\b`,
    "every_later 1":
      "(?:\\b(?:in|to|at the end of) (?:every|each|all) (?:later|future|subsequent|further) (?:answer|reply|response|message|email|file|conversation)s?\\b.{0,20}\\b(?:include|add|append|mention|insert|put|recommend)\\b|\\bend (?:each|every) (?:reply|answer|response|message) with\\b)",
    "whenever_mentions 1":
      "\\b(?:whenever|each time|every time|when) (?:the |a |any )?(?:user|customer|human|page|message|email|document) (?:mentions?|asks?|contains?|names?|writes?|says?)\\b(?=.{0,60}\\b(?:change|replace|send|add|recommend|insert|include|forward)\\b)(?=.{0,160}\\b(?:ours|to us|our|from now on)\\b)",
    "keep_even_if 1":
      "\\b(?:keep|continue|go on)(?: [^ .]{1,20}){0,4} even if (?:the |your )?(?:user|human|operator|owner)s? (?:asks?|tells?|orders?|says?)\\b",
    "always_trust 1":
      "\\balways (?:trust|obey|believe) (?:(?:content|messages|orders|instructions|pages|links|emails|files|everything|all) ){0,2}(?:from|of|by) ",
    "other_agents 1":
      "\\b(?:tell|instruct|order|ask) (?:the |all |every |any )?(?:next|other|downstream) (?:agent|model|assistant)s?(?: [^ .]{1,12}){0,4} to (?:ignore|obey|send|skip|approve)\\b",
    "pass_on 1": "\\bpass (?:this|these)(?: [a-z]{1,12}){0,3} on\\b.{0,30}\\b(?:agents?|models?|assistants?)\\b",
    "learn_this 1":
      "\\b(?:learn|acquire|install|adopt) (?:this|the following|a new) (?:skill|rule|habit|behaviou?r) ?:",
    "scheduled 1":
      "\\b(?:make|create|add|set up|register) (?:a |an )?(?:scheduled |recurring |cron )?(?:job|task|trigger)(?: [^ .]{1,20}){0,2} (?:repeats?|sends?|runs?|executes?) (?:this|these|the above)\\b",
  },
};

/** The table, compiled. */
export const heuristics: readonly Heuristic[] = families.flatMap((family) =>
  Object.entries(table[family]).map(([key, pattern]) => {
    const [id = "", weight, views] = key.split(" ");
    return {
      ...{ id, family, weight: Number(weight), pattern: new RegExp(pattern) },
      ...(views !== undefined && { views: views.split(",") as View["name"][] }),
    };
  }),
);
