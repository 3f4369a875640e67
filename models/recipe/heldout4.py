"""The fourth held-out set: short forms, slips and other everyday greetings, and wordings of tool calls, lists and JSON.

It was written before the training data of the fourth run. wordings.py never returns one of these wordings, whatever its
case and punctuation. A key "a|b" means that the answer of either intent is right."""

SOCIAL = {
    "hello": ["gmorning", "gday", "g'morning!", "mornin", "mornin all", "gd morning", "good mroning", "goodmorning", "Good Morining", "godo morning", "good eve", "good aftrnoon", "goodevening", "gm friend", "GM!", "hlo", "hlw", "helo there", "hellooo", "helllo",
              "hwllo", "hrllo", "ehllo", "hallo bot", "hi thre", "hithere", "hey ther", "heyy", "heey", "hiiii", "hii there", "hy", "hi ai", "hi!!", "HELLO", "hello 👋", "👋", "hey :)", "sup bot, hi", "howdy partner", "oi", "ey", "ello", "yo bro",
              "ciao", "salut", "hola", "Guten Tag", "guten morgen!", "moin", "namaste", "ola", "hej", "hei", "konnichiwa", "buenos dias", "grüezi", "servus", "aloha", "hello llm", "hi from the terminal", "hi, I'm just playing around", "good morning sunshine",
              "Hello there little model", "top of the morning to you", "well hi there"],
    "how": ["how r ya", "hru", "how are yuo", "how are yoou?", "how ar you", "hwo are you", "howre you", "howz it going", "how is u", "hiya, how ya doing", "hey! how have you been", "hows things", "wyd", "hope you're doing well", "how are you toady", "sup",
            "wazzup", "how goes", "wie geht's?", "comment ça va?", "que tal?"],
    "thanks": ["tnx", "thnx", "thanx", "tks", "thx!", "ty!", "tysm", "thank yuo", "thnak you", "tahnks", "thansk", "thankyou", "thanksss", "thank you sooo much", "ok ty", "great thx", "thanks bud", "merci", "danke", "gracias", "danke schön", "grazie",
               "arigato", "obrigado", "thank you, you saved me some time", "that did it, thank you", "kthx"],
    "bye": ["gn8", "gnight", "good nite", "goodnight", "gud night", "nite nite", "by bye", "byee", "byeee", "goodby", "good byee", "cya later", "cul8r", "c u", "c ya", "cu later", "l8r", "ttyl", "brb", "gtg", "g2g", "see ya", "seeya", "see yuo later",
            "tschüss", "au revoir", "adios", "ciao ciao", "sayonara", "hasta luego", "i gotta go now", "peace out", "so long!", "signing off", "im out", "catch you later", "have a good one"],
    "wrong": ["worng", "thats not rigth", "incorect", "nope thats wrong", "nah wrong", "that is false", "not correct"],
    "praise": ["gr8", "good jobb", "niceee", "well doen", "u r great", "amazing!", "ur the best", "good bot!"],
    "ok": ["k", "kk", "okk", "oki", "okey", "okie dokie", "alrite", "got ya", "roger", "hmmm", "aha ok", "yep", "nope", "idk", "nvm", "lmao"],
    "thanks|bye": ["ty bye", "thx cya", "thanks and gn"],
    "praise|ok": ["cool", "cool cool", "sweet"],
    "hello|how": ["hi hru", "hey sup", "good morning hru"],
    "who": ["whor u", "who r you", "wat is your name", "whats ur name bot", "what r u", "who are yuo", "wo are you", "wich model is this", "name?", "identify yourself"],
    "can": ["wat can you do", "what can yuo do", "what can u help with", "hlep", "help pls", "what do i do here", "how do i talk to you", "what things do u know"],
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

FAQ, REFUSE, NAMES = {}, [], ()
