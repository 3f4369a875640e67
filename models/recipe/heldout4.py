"""The fourth held-out set: short forms, slips and other everyday greetings, and wordings of tool calls, lists and JSON.

It was written before the training data of the fourth run, and what the earlier training data had was taken out of it. wordings.py never returns one of these wordings, whatever its
case and punctuation. A key "a|b" means that the answer of either intent is right."""

SOCIAL = {
    "hello": ["gmorning", "g'morning!", "mornin", "mornin all", "gd morning", "good mroning", "goodmorning", "Good Morining", "godo morning", "good eve", "good aftrnoon", "goodevening", "gm friend", "hlo", "hlw", "helllo",
              "hwllo", "hrllo", "ehllo", "hallo bot", "hi thre", "hithere", "hey ther", "heey", "hiiii", "hy", "hi ai", "sup bot, hi", "howdy partner", "ey", "yo bro",
              "konnichiwa", "grüezi", "hello llm", "hi from the terminal", "hi, I'm just playing around", "good morning sunshine",
              "Hello there little model", "top of the morning to you", "hello again little one", "hi, it is me", "Hello, I want to say hi", "goood morning", "hi im back"],
    "how": ["how are yuo", "how are yoou?", "how ar you", "hwo are you", "howz it going", "hiya, how ya doing", "hey! how have you been", "wyd", "hope you're doing well", "how are you toady",
            "how goes", "how do u do today", "hows ur day", "wie geht's?", "comment ça va?", "que tal?"],
    "thanks": ["thank yuo", "thnak you", "tahnks", "thansk", "thanksss", "thank you sooo much", "ok ty", "thanks bud", "danke schön",
               "thank you, you saved me some time", "kthx", "thank u so much!", "thnaks a lot", "thank you mate, it works", "thx for ur help"],
    "bye": ["gn8", "gnight", "good nite", "gud night", "nite nite", "by bye", "byeee", "goodby", "good byee", "cya later", "cul8r", "c ya", "cu later", "l8r", "brb", "gtg", "seeya", "see yuo later",
            "tschüss", "ciao ciao", "i gotta go now", "bye my friend, until tomorrow", "godbye", "gonna go now, bye", "see you agian", "ok im off to bed"],
    "wrong": ["worng", "thats not rigth", "incorect", "nope thats wrong", "nah wrong"],
    "praise": ["gr8", "good jobb", "niceee", "well doen", "u r great", "ur the best"],
    "ok": ["okk", "alrite", "got ya", "lmao"],
    "thanks|bye": ["ty bye", "thx cya", "thanks and gn"],
    "praise|ok": ["cool cool"],
    "hello|how": ["wazzup", "hi hru", "hey sup", "good morning hru"],
    "who": ["whor u", "wat is your name", "whats ur name bot", "who are yuo", "wo are you", "wich model is this"],
    "can": ["wat can you do", "what can yuo do", "what can u help with", "hlep", "what things do u know"],
}

# tool calls: tool -> wordings, as in dialogues.tools
TOOLS = {
    "weather": ["whats the weather in {c}", "is it cold in {c} today?", "weather {c}", "Will it rain in {c}?", "how warm is it in {c}", "Can you check the weather in {c} for me?", "I am going to {c}, how is the weather there?", "weather report for {c} please",
                "Please look up the weather in {c}.", "is the sun shining in {c}"],
    "calcul": ["whats {e}", "can you calculate {e} for me", "{e} = ?", "I need the result of {e}", "Please use your calculator for {e}", "evaluate {e}", "solve {e}", "Hey, what does {e} come to?"],
    "shell": ["can you run {x}", "run `{x}` please", "please execute the command {x}", "Use the shell to run {x}", "what does {x} print here?", "try running `{x}`", "I want you to run {x}", "start {x} in the shell"],
    "time": ["whats the time in {c}", "time in {c} please", "what time do they have in {c}", "Can you tell me what time it is in {c}?", "current time {c}", "is it late in {c} now? what time is it", "Hey, the time in {c}?"],
    "search": ["search {w}", "can you search the web for {w}", "google {w}", "look for {w} online", "Please find information about {w}", "I want to know more about {w}, search it", "do a web search for {w}"],
    "message": ["please tell {p}: {m}", "message {p}: {m}", "send a message to {p}: {m}", "Can you send {p} this: {m}", "text {p}: {m}", "let {p} know: {m}", "I want to send {p} a message: {m}"],
    "read": ["open {x}", "can you read {x} for me", "whats in {x}", "Please show me the contents of {x}", "cat {x}", "what does the file {x} say?", "print {x}", "I need to see {x}"],
    "add": ["add {a} and {b} with the tool", "please add {a} to {b}", "what do you get for {a} plus {b}?", "Can you add these numbers: {a} and {b}", "use add for {a} and {b}"],
}

# lists and JSON: task -> wordings, as in dialogues.lists
LISTS = {
    "sort": ["sort these: {L}", "Can you sort these words? {L}", "alphabetical order please: {L}", "order these words from a to z: {L}", "Please put them in alphabetical order: {L}", "i need this list sorted: {L}"],
    "reverse": ["reverse: {L}", "Can you reverse this list? {L}", "list these in reverse order: {L}", "give me this list backwards: {L}", "Reverse the following words: {L}"],
    "count": ["count: {L}", "how many words? {L}", "Can you count the words in this list? {L}", "number of words in: {L}", "How many items are in this list: {L}"],
    "upper": ["in capitals: {L}", "uppercase this: {L}", "Make these words upper case: {L}", "write in all caps: {L}", "Can you put this in capital letters? {L}"],
    "array": ["json array of {L}", "make this a json list: {L}", "Can you turn these words into a JSON array? {L}", "to JSON: {L}", "I need a JSON array with {L}"],
    "object": ["make json: {L}", "Can you turn this into JSON? {L}", "to json please: {L}", "Give me this as a JSON object: {L}", "extract the data as JSON: {L}"],
    "repeat": ["say this: {L}", "please repeat: {L}", "Can you repeat this? {L}", "echo: {L}", "Repeat these words: {L}"],
    "first": ["first word? {L}", "what's the first word: {L}", "Which is the first word in this list? {L}", "give me the first of these: {L}", "Tell me the first word of {L}"],
    "last": ["last word? {L}", "what's the last word: {L}", "Which is the last word in this list? {L}", "give me the last of these: {L}", "Tell me the last word of {L}"],
}

FAQ, REFUSE = {}, []
globals().update({"TOOL_" + k: v for k, v in TOOLS.items()}, **{"LIST_" + k: v for k, v in LISTS.items()})
NAMES = tuple("TOOL_" + k for k in TOOLS) + tuple("LIST_" + k for k in LISTS)
