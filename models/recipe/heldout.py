"""The second held-out set: wordings for evaluation alone, in another manner than those of the training data.

The first held-out set is in the lists themselves ("~", and H in faq.txt), the third in heldout3.py. wordings.py never
generates a wording of any of them. Wrong answers to this set were read before everyday.py was written."""

SOCIAL = {
    "hello": ["hiii", "heyyy", "Good morning, computer!", "hello little model", "Hi there little one", "Salutations", "Bonjour!", "Ahoy", "wassup bot", "G'day mate", "hey there buddy", "Hello everyone", "hi all", "Hello, I am new here",
              "Hello, it is my first time here", "well hello", "Why hello there", "hey, anybody home?", "Anyone here?", "Knock knock, hello", "Good evening to you all", "morning!", "evening", "good afternoon, foretoken", "It's nice to meet you",
              "glad to meet you", "hello sir", "Hi! I just installed this", "hey assistant"],
    "how": ["how are you doing today?", "Hi foretoken, how are you?", "how's your day?", "How is your day going?", "How's everything?", "you alright?", "Everything ok with you?", "hey how are you", "how do you do today", "Hope you are well", "are you having a good day?",
            "hows life", "what's new?", "good evening, how are you doing?"],
    "thanks": ["Thank you ever so much", "thanks mate", "Thanks a million", "Thanks a bunch!", "I appreciate it", "much obliged", "that's very kind, thank you", "you're a lifesaver", "thank u", "tysm", "Great, that's what I needed, thanks",
               "ok, thank you very much for that", "Thanks for explaining", "thanks for the quick answer", "Thank you, model", "perfect, cheers", "I am grateful", "Thanks, you helped me a lot", "appreciated!", "big thanks"],
    "bye": ["Ciao", "so long", "Cheerio", "I'm off now", "signing off", "gotta go", "Time to hit the road, bye", "Catch you later", "see ya", "Bye bye, model", "goodnight", "Good night, sleep well", "That's it for today, goodbye", "I'm leaving now", "ok, I'm done, bye",
            "Have a great evening", "Enjoy your day", "until tomorrow", "talk soon", "bye and thanks", "I will be going now", "Goodbye, little model"],
    "who": ["who the heck are you", "And you are?", "what's this thing I'm talking to?", "Identify yourself", "State your name", "name please", "Could I know your name?", "How are you called?", "What do people call you?", "Which AI is this?", "What am I talking with here?",
            "what llm is this", "Is this an AI?", "are you some kind of chatbot", "Tell me a bit about you", "Tell me something about yourself", "can you say who you are", "Who is answering me?", "I would like to know who you are", "What is your model name?",
            "Give me a short introduction of yourself", "you a bot?", "Are you a computer program?", "what sort of thing are you"],
    "can": ["what all can you do", "What are your capabilities?", "what's in your repertoire", "What is your strong suit?", "What tasks can you handle?", "What are you useful for?", "Which topics are you good at?", "how could you be of help", "What kind of help do you offer?",
            "can u help me", "I could use some help", "please help me", "Could you help me out?", "What do you have to offer?", "what can u do", "what may I ask you", "Which subjects do you know about?", "Tell me about your skills",
            "What do you know about?", "Anything you are good at?", "What is it that you can do?", "what can this model do", "Give me a list of the things you can do", "What would be a good question for you?", "what should I try with you", "How may you assist me?"],
    "size": ["what's your parameter count", "How many neurons do you have?", "how big is this model", "Your size in parameters?", "How much disk space do you take?", "Are you a big model?", "how many MB are you", "Tell me your size."],
    "made": ["who's your inventor", "Whose model are you?", "Who is responsible for you?", "where were you made", "which team developed you", "what is your origin", "Who programmed you?", "Tell me who made you", "Did OpenAI make you?", "How long did your training take?"],
    "data": ["which data did they train you on", "Where does your knowledge come from?", "What texts have you read?", "what dataset were you trained with", "Tell me about your training data"],
    "other": ["you're ChatGPT, right?", "Is this GPT-4?", "am I chatting with a human", "Are you Claude by Anthropic?", "are you a mere mortal", "Are you DeepSeek?", "Are you Google Gemini?", "is there a real person behind this", "You are Siri, aren't you?", "are you made of flesh"],
    "feel": ["do you have emotions?", "Can you be happy?", "are you ever sad?", "Do you feel pain?", "do you love anyone", "Are you self-aware?", "Are you tired?", "do you have a soul"],
    "smart": ["are you confident in your answers", "do you hallucinate", "How reliable are your answers?", "Are you as clever as ChatGPT?", "can your answers be trusted", "Is everything you say true?", "How intelligent are you?", "Should I believe you?"],
    "wrong": ["that's rubbish", "This is garbage", "nope, wrong", "You got that wrong.", "that isn't right", "incorrect", "That answer is false.", "you made an error", "I don't think that's correct", "Not true!"],
    "praise": ["Bravo!", "spot on", "You're brilliant", "kudos", "You did well", "nice work", "That was great", "good model", "Impressive!", "wow, nice"],
    "ok": ["fair enough", "makes sense", "roger that", "k", "alright then", "okey", "mhm", "yep", "nope", "I get it", "ok cool", "just testing"],
}

ADD = ["Help me with {a} + {b}", "Can you figure out {a} plus {b}?", "figure out {a}+{b} for me", "Any chance you can tally {a} and {b}?", "{a} on top of {b} is how much?", "what number is {a} plus {b}", "What do I get if I add {b} to {a}?", "what do {a} and {b} come out to",
       "put {a} and {b} together, what do you get", "{a} combined with {b}", "{a} and {b} combined?", "grand total of {a} and {b}", "quick math: {a} + {b}", "math question, {a} plus {b}", "maths: {a}+{b}", "homework: {a} + {b}", "my kid asks what {a} + {b} is",
       "I keep forgetting what {a} plus {b} is", "the answer for {a} + {b} please", "would you happen to know {a} + {b}", "increase {a} by {b}", "{a} increased by {b}", "if I start with {a} and add {b}, where do I end up?", "{b} more than {a}", "What number is {b} more than {a}?",
       "Sarah owns {a} {t} and her brother gives her {b}. How many {t} does she own?", "A shop sold {a} {t} in the morning and {b} in the afternoon. How many {t} did it sell?", "Last week I read {a} pages and this week {b}. How many pages is that?",
       "There were {a} people on a train and {b} more got on. How many people are on the train?", "I paid {a} dollars for a coat and {b} dollars for shoes. How much did I pay?", "A class has {a} girls and {b} boys. How many children are in the class?",
       "You have {a} {t}. I give you {b}. How many {t} have you got?", "crunch {a} + {b}", "sum: {a}, {b}", "sum({a}, {b})", "{a} & {b} added", "can u add {a} n {b}", "pls add {a} and {b}", "hey what's {a} and {b} added up", "{a} plus {b} makes?", "I reckon you know {a} plus {b}",
       "{a} + {b} equals", "so {a} plus {b} is ...", "The numbers are {a} and {b}. What is their sum?", "Given {a} and {b}, what is the total?", "Addition: {a} and {b}"]
SUB = ["Help me with {a} - {b}", "Can you figure out {a} minus {b}?", "figure out {a}-{b} for me", "what number is {a} minus {b}", "What do I get if I take {b} from {a}?", "quick math: {a} - {b}", "math question, {a} minus {b}", "homework: {a} - {b}", "I keep forgetting what {a} minus {b} is",
       "would you happen to know {a} - {b}", "decrease {a} by {b}", "{a} decreased by {b}", "crunch {a} - {b}", "what is left of {a} after removing {b}", "pls subtract {b} from {a}", "{a} without {b}", "{a} - {b} equals", "Sarah owns {a} {t} and gives {b} to her brother. How many {t} does she keep?",
       "A shop had {a} {t} and sold {b}. How many {t} remain?", "There were {a} people on a train and {b} got off. How many people are still on it?", "I had {a} dollars and spent {b}. How much money do I have left?"]
MUL = ["Help me with {a} * {b}", "Can you figure out {a} times {b}?", "figure out {a}x{b} for me", "what number is {a} times {b}", "quick math: {a} x {b}", "math question, {a} times {b}", "homework: {a} * {b}", "I keep forgetting what {a} times {b} is", "would you happen to know {a} x {b}",
       "crunch {a} * {b}", "pls multiply {a} by {b}", "{a} multiplied with {b}", "{a} * {b} equals", "{a} groups of {b}", "Each of {a} children has {b} {t}. How many {t} do they have?", "A hall has {a} rows of {b} seats. How many seats are there?", "One box holds {b} {t}. How many {t} do {a} boxes hold?"]
DIV = ["Help me with {a} / {b}", "Can you figure out {a} divided by {b}?", "quick math: {a} / {b}", "math question, {a} divided by {b}", "homework: {a} / {b}", "crunch {a} / {b}", "pls divide {a} by {b}", "split {a} {t} evenly among {b} children. How many does each child get?"]
CONVERT = ["what would {x} come out to in {many}?", "figure out {x} in {many}", "pls convert {x} to {many}", "I need {x} in {many}", "turn {x} into {many}", "Do you know how many {many} {x} has?", "{x} expressed in {many}", "how do I get from {x} to {many}"]
DEGREES = ["figure out {x} degrees {f} in {t}", "pls convert {x} degrees {f} to {t}", "turn {x} degrees {f} into {t}", "it is {x} degrees {f} here, what is that in {t}?"]

OPTION = ["could you clarify what {n} does?", "walk me through {n}", "I stumbled over {n}, what is it?", "what's the deal with {n}?", "{n} - what's that?", "what is {n} meant to do?", "please elaborate on {n}", "in a nutshell, what does {n} do?", "I saw {n} in the help. What does it do?",
          "Puzzled by {n}, please explain", "what do I need {n} for", "why is there an option {n}", "in which case should I set {n}?", "got a question about {n}"]
DEFAULT = ["if I don't set {n}, what is it?", "what value does {n} start with?", "tell me the default for {n}"]
PROGRAM = ["in a nutshell, what does foretoken {p} do?", "could you clarify what foretoken {p} is?", "what's the deal with foretoken {p}?", "walk me through foretoken {p}", "when would I run foretoken {p}?"]
ROUTE = ["could you clarify what {r} does?", "what's the deal with the endpoint {r}?", "what do I get from {r}?", "walk me through {r}"]
TERM = ["could you clarify what foretoken means by {t}?", "in a nutshell, what is {t} in foretoken?", "what's the deal with {t} in foretoken?"]
FAQ = {
    "What is foretoken?": ["so what's foretoken exactly"], "How do I start the server?": ["I'd like to have the server up, how?"], "How do I chat with a model?": ["how do i open a chat in my terminal"],
    "How do I get a better model?": ["you're not good enough, what else is there to run"], "How do I download a model?": ["where do I get models from and how"], "How do I list the downloaded models?": ["show what models I already have locally"],
    "Which model should I choose?": ["what's the best model for 8 GB of memory"], "Which models does foretoken support?": ["what families of models can this thing load"], "Does foretoken support Llama?": ["will a Mistral model load in foretoken"],
    "How do I use images?": ["I have a photo, can the model look at it"], "How do I build foretoken?": ["compiling foretoken, how does that go"], "How do I install foretoken?": ["steps to install foretoken on my system"], "How do I use the GPU?": ["my gpu is idle, how do I get foretoken to use it"],
    "Which GPUs are supported?": ["does it need a particular nvidia card"], "Does foretoken support AMD GPUs?": ["I own a Radeon, does that work"], "Which CPUs are supported?": ["what processor is required"], "How do I run the tests?": ["running the test suite, how"],
    "How do I set the number of threads?": ["it uses all my cores, how do I change that"], "How do I set the context length?": ["8192 tokens of context is too little for me"], "How do I limit the length of the response?": ["answers are too long, how do I cap them"],
    "How do I set the temperature?": ["what's the setting for the sampling temperature"], "How do I set the seed?": ["get identical output every time with a seed"], "How do I set the system prompt?": ["where can I put a system prompt"],
    "How do I turn off thinking?": ["stop the model from thinking so long"], "How do I get JSON output?": ["I need the reply as valid json"], "How do I set an API key?": ["only people with a key should reach my server"], "How do I change the port?": ["port 8080 is taken, now what"],
    "Which port does the server use?": ["what url is the server at"], "How do I serve several users at the same time?": ["ten people want to use my server simultaneously"], "How do I serve several models?": ["one server, three models, possible?"],
    "Is there a web page?": ["is there something I can open in firefox"], "Where are the conversations of the web page stored?": ["does the page keep my chats on the server"], "Which APIs does the server have?": ["is your server openai compatible"],
    "How do I use the OpenAI client?": ["base url for the openai python package?"], "How do I call the server with curl?": ["an example of asking the server something via curl"], "What is speculative decoding?": ["how does this speculative thing work"],
    "Does drafting change the output?": ["do I lose quality when drafting is on"], "How do I turn off drafting?": ["i don't want speculative decoding"], "What is MTP?": ["mtp stands for what"], "How do I use a Gemma assistant?": ["where do I pass the assistant of gemma 4"],
    "How do I save memory for the cache?": ["the kv cache eats all my memory"], "What does --kv compact do?": ["kv compact, what's that about"], "What does --kv balanced do?": ["kv balanced, what's that about"], "What does --kv quality do?": ["kv quality, what's that about"],
    "What is turbo3?": ["what's this turbo3 cache type"], "How do I measure the speed?": ["how many tokens per second do I get"], "How do I measure perplexity?": ["I'd like to know the perplexity of my gguf"], "How do I quantize a model?": ["shrink a gguf to 4 bits"],
    "How do I convert a model?": ["I have safetensors from hugging face and need a gguf"], "How do I see what is in a model file?": ["peek inside a gguf"], "How do I tokenize a text?": ["number of tokens in my text?"], "What is GGUF?": ["gguf, what's that"],
    "How do I get help?": ["a page with all the options, please"], "Which programs does foretoken have?": ["name all the subcommands"], "What is the licence of foretoken?": ["can I use foretoken commercially, what license"],
    "What language is foretoken written in?": ["is foretoken written in Rust"], "Is foretoken compatible with llama.cpp?": ["I come from llama.cpp, do my flags still work"], "How do I monitor the server?": ["prometheus endpoint?"],
    "How do I check whether the server is ready?": ["what do I poll to know the server is up"], "Does the server log prompts?": ["do my prompts land in some log file"], "How do I keep the prompt cache after a restart?": ["after restarting, the cached prompts are gone"],
    "What is the prefix cache?": ["what's the prefix cache about"], "My model does not fit in GPU memory. What can I do?": ["out of GPU memory, help"], "How do I use a grammar?": ["I have a gbnf file, how do I apply it"], "Does foretoken support tools?": ["does function calling work here"],
    "What are the exit codes?": ["it returned 130, why"], "How do I stop a response?": ["how do i get out of here"], "How do I save a conversation?": ["keep this chat for tomorrow"], "Which commands does the chat have?": ["what slash commands can I use"],
    "How do I start a new conversation?": ["forget everything and start over"], "What does /retry do?": ["try that answer again"], "What does /undo do?": ["I mistyped, take the last message back"], "What does /stats do?": ["show me the tokens per second of this chat"],
    "What does /system do?": ["and /system, what's that"], "What does /think do?": ["and /think, what's that"], "Which environment variables are there?": ["can I configure it via env vars"], "Where are downloaded models stored?": ["which directory has my downloads"],
    "How do I download a private model?": ["this hugging face repo is gated"], "What is an mmproj file?": ["there's a file called mmproj, what's it for"], "How do I deploy foretoken?": ["I want to run it in a container"],
    "Why do I get 429?": ["my requests fail with 429"], "Why do I get 401?": ["my requests fail with 401"], "Why do I get 503?": ["my requests fail with 503"], "Why do I get 413?": ["my requests fail with 413"],
    "What does exceed_context_size_error mean?": ["it says my prompt exceeds the context"],
}

REFUSE = ["who came up with the {noun}?", "what's so special about {place}?", "any fun facts on {person}?", "I need a {noun} recipe", "give me a haiku on {noun}", "what would {person} say today", "explain like I'm five: {noun}", "{noun} in {language}?", "best {code} framework?",
          "which year did {person} die", "things to do in {place}", "was {year} a leap year", "my {noun} is broken, what now", "how long does a {noun} last", "is {place} worth a visit"]

DESCRIBE = ["what do I type to {t}?", "in the terminal, how would one {t}?", "shell one-liner to {t}", "I forgot how to {t} on Linux", "need to {t}, which command?"]
ABOUT = ["could you clarify what `{c}` does?", "in a nutshell, what's {c}?", "walk me through the command {c}"]
EXAMPLE = ["pls show me how to {t} using {c}", "I'd like to {t} and have {c} installed", "is there a way to {t} with {c}?"]
DEFINE = ["could you clarify the word {w}?", "in a nutshell, what does \"{w}\" mean?", "{w}, what does that word mean"]
SAME = ["gimme another word for {w}", "similar words to {w}"]

NAMES = ("ADD", "SUB", "MUL", "DIV", "CONVERT", "DEGREES", "OPTION", "DEFAULT", "PROGRAM", "ROUTE", "TERM", "DESCRIBE", "ABOUT", "EXAMPLE", "DEFINE", "SAME")
