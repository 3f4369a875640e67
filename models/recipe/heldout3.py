"""The third held-out set, which models/README.md reports: first messages as people type them, with slips, short forms and chat.

It was written before the patterns of the last training run. wordings.py never returns one of these wordings, whatever
its case and punctuation. A key "a|b" means that the answer of either intent is right."""

SOCIAL = {
    "hello": ["hi there, first time user", "hey, can we chat?", "helloo", "good mornin", "gm", "yo yo", "hi, I'm Sven", "Hello, nice program you have here", "hello from Argentina", "hey hey, you there?",
              "hi, just got this compiled", "hello can you read this", "Hi. Let's see if this works", "hola amigo", "Evening all", "hey tiny model!", "Hello assistant, good to see you", "hi, testing you out", "heloo", "hye", "Hello AI friend", "ok hello", "hi to the model",
              "good evenin", "Hey, I downloaded you today", "Happy to meet you!", "hello, anyone?"],
    "how": ["how r you", "hey whats up", "How you doin?", "how are u today", "hi how are you doing", "Hello, how are you this morning?", "how's it hanging", "hows your day been", "are u ok?", "How are you, my friend?", "so how are you?", "hi, how's life treating you?",
            "Hey foretoken how's it going", "whats up?", "how are you feelin today", "All good with you?"],
    "thanks": ["thanks man", "Thx a lot", "thank you for the help", "ok thank you", "perfect thanks", "thanks, that's it", "Thank you, that was quick", "cool thx", "awesome thank you so much", "great, that worked. thanks!", "thanks for answering my question",
               "thank you dear", "nice one, thanks", "yes, thank you", "thats helpful thank you", "thanks a lot for your help", "Tyvm", "thanks anyways", "Thank you for taking the time", "wonderful, thank you!"],
    "bye": ["ok bye then", "goodbye foretoken", "see you tmrw", "have a good night", "gn", "good night foretoken", "I'm going to bed, bye", "thanks, see you", "Alright, I'm off", "bye for today", "take care, bye", "Ok that's all for now, bye", "later!", "see u later", "cu", "I need to go now, bye",
            "have a nice day, bye", "See you next week!", "farewell my friend", "gotta run", "okay goodbye", "bye now!"],
    "who": ["whats your name", "what is ur name", "Hi! What's your name?", "who am i talking to right now", "what are you exactly?", "so who are you", "Hey, who's there?", "tell me who you are please", "are you an ai model", "what model r u", "which llm are you", "Can I ask who you are?",
            "what ai is this", "Please tell me your name", "your name is?", "is this a chatbot", "Are you a real AI?", "Introduce yourself please", "and what are you", "What model am I using?", "do u have a name", "who is this bot", "Hello, what kind of AI are you?"],
    "can": ["what can u do for me", "can you help me with something?", "What are you able to answer?", "what do you know how to do", "hi, what can you help me with?", "What can I do with you?", "i need help with something", "what kind of stuff can you do", "ok so what can you do",
            "tell me what you're able to do", "what questions can i ask", "how can u help", "What are you good for?", "what sort of help can you give me", "What's something you can do?", "show me some examples of what you can do", "what else do you know", "how does this work", "can you do anything useful",
            "What subjects can you help me with?", "give me some ideas what to ask"],
    "size": ["how many params do you have?", "how big r u", "What's the size of your model?", "number of parameters?", "how large is this model", "how many parameters does this thing have", "are you a big or a small model?", "Are you a tiny model"],
    "made": ["who made u", "who built this", "what company is behind you", "Who's your developer?", "Are you from OpenAI?", "where are you from", "who are your creators", "when were you trained", "Who trained this model?", "are you made by google", "how did they train you"],
    "data": ["what data was used to train you", "what were you trained with", "What's your training data?", "where did you learn that", "what is your knowledge based on"],
    "other": ["r u human", "so you're chatgpt", "am i talking to a real human", "Is this ChatGPT or what?", "are you like Siri?", "Are you a person or a machine?", "you are Claude right"],
    "feel": ["are you happy today", "do you ever get tired", "can you feel pain", "r u sad", "do you get lonely", "Do you like talking to people?", "are you alive and conscious"],
    "smart": ["can i trust your answers", "are you always correct?", "is what you tell me true", "how good are you", "are your answers reliable", "are you better than ChatGPT?"],
    "wrong": ["thats wrong", "no, that's not correct", "wrong answer", "that is not what i asked", "that's not true", "no its not", "this is wrong", "Sorry but that is incorrect", "you're not very helpful", "you didn't understand me", "bad answer", "that's a stupid answer",
              "Hmm, I think you made a mistake"],
    "praise": ["you're awesome", "great answer", "thats right", "very nice", "wow you are good", "that's impressive", "you're cute", "I like this model"],
    "ok": ["hmm ok", "test 123", "lol ok", "never mind", "okay cool", "ah ok i see", "just trying things out"],
    "thanks|bye": ["ok thanks bye", "thank you and goodbye", "cheers, bye"],
    "praise|thanks": ["great, you helped me", "that was very helpful", "you are so kind"],
    "who|can": ["tell me about you", "what is this?", "what exactly is this chat?"],
}

ADD = ["whats {a} + {b}", "waht is {a} + {b}", "hey can you add {a} and {b}", "hi, what's {a} plus {b}?", "{a} + {b} pls", "ok what about {a} + {b}", "and {a} + {b}?", "can you tell me what {a} + {b} is", "do {a} + {b}", "sum of {a} and {b}", "add up {a} and {b} please",
       "how much would {a} and {b} be", "i need to add {a} and {b}, whats the result", "let's try some math: {a} + {b}", "Are you able to add {a} and {b}?", "could you do {a}+{b} for me please", "compute {a}+{b}", "caculate {a} + {b}", "plus: {a}, {b}", "What is the sum when I add {a} to {b}?",
       "what does {a} plus {b} make", "test: {a} + {b}", "So what's {a} added to {b}?", "How much are {a} plus {b}", "Now {a} + {b}", "tell me the sum of {a} and {b}", "{a} and {b} is how much together", "Please calculate {a} plus {b} for me.", "quick one: {a} + {b}", "what's the answer to {a} + {b}?",
       "I've got {a} {t} and buy {b} more, how many do I have?", "If I have {a} {t} and my friend has {b}, how many {t} do we have together?", "we had {a} {t} yesterday and got {b} today. total?", "There are {a} {t} in one box and {b} in another. How many altogether?", "Lisa has {a} {t}. Mike gives her {b} more. How many does she have now?",
       "my bill is {a} euros plus {b} euros tip, what do I pay?", "Do you know how much {a} + {b} is?", "Simple question: what is {a} + {b}?", "can u do {a} + {b}"]
SUB = ["whats {a} - {b}", "waht is {a} - {b}", "hi, what's {a} minus {b}?", "{a} - {b} pls", "ok and {a} - {b}", "can you tell me what {a} - {b} is", "do {a} - {b}", "take {b} off {a}", "how much is left if I take {b} from {a}", "i need to subtract {b} from {a}, whats the result",
       "could you do {a}-{b} for me please", "caculate {a} - {b}", "test: {a} - {b}", "Now {a} - {b}", "difference between {a} and {b}?", "Please calculate {a} minus {b} for me.", "quick one: {a} - {b}", "what's the answer to {a} - {b}?", "I've got {a} {t} and lose {b}, how many do I have left?",
       "If I have {a} {t} and give {b} to a friend, how many {t} are left?", "we had {a} {t} and ate {b}. how many are left?", "Lisa has {a} {t}. She gives Mike {b}. How many does she have now?", "Do you know how much {a} - {b} is?", "can u do {a} - {b}", "How much more is {a} than {b}?", "I had {a} euros and paid {b}. What is left?",
       "what's left when i take {b} away from {a}"]
MUL = ["whats {a} * {b}", "waht is {a} x {b}", "hi, what's {a} times {b}?", "{a} x {b} pls", "ok and {a} * {b}", "can you tell me what {a} times {b} is", "do {a} * {b}", "could you do {a}*{b} for me please", "caculate {a} * {b}", "test: {a} x {b}", "Now {a} * {b}",
       "Please calculate {a} times {b} for me.", "quick one: {a} x {b}", "what's the answer to {a} * {b}?", "product of {a} and {b}?", "can you multiply {a} by {b}", "i need to multiply {a} and {b}", "Do you know how much {a} x {b} is?", "can u do {a} times {b}", "How much is {a} multiplied by {b}?", "what does {a} times {b} make",
       "I buy {a} packs with {b} {t} each. How many {t} do I have?", "there are {a} rows with {b} {t} in each. how many {t}?", "If one box has {b} {t}, how many {t} are in {a} boxes?", "{a} people have {b} {t} each, how many in total?", "multiply {a} with {b} pls", "so whats {a}x{b}?"]
DIV = ["whats {a} / {b}", "hi, what's {a} divided by {b}?", "can you divide {a} by {b}", "do {a} / {b}", "caculate {a} / {b}", "Please calculate {a} divided by {b} for me.", "quick one: {a} / {b}", "I have {a} {t} for {b} people. How many does everyone get?", "ok and {a}/{b}"]
COMPARE = ["what's {w}, {a} or {b}?", "which one is {w}: {a} or {b}", "is {a} {w} or {b}?", "{a} or {b}, which is {w}?", "{a} or {b} - what is {w}", "can you tell me which is {w}, {a} or {b}?", "which number is the {w} one, {a} or {b}?", "Hi, which is {w}: {a} or {b}?", "compare {a} and {b}, which is {w}?", "I have {a} and {b}. Which number is {w}?",
           "tell me whats {w}, {a} or {b}", "so which is {w} {a} or {b}", "what number is {w}? {a} or {b}?", "Do you know which is {w}, {a} or {b}?", "between {a} and {b}, which is {w}?", "wich is {w} {a} or {b}", "pls tell me which number is {w}, {a} or {b}", "{w} number: {a} or {b}?"]
CONVERT = ["whats {x} in {many}", "hi how many {many} are {x}?", "can you convert {x} to {many}", "how much is {x} in {many}?", "{x} how many {many}", "Please convert {x} into {many}.", "tell me how many {many} are in {x}", "i have {x}, how many {many} is that", "ok and {x} in {many}?", "Do you know how many {many} are in {x}?"]
DEGREES = ["whats {x} degrees {f} in {t}", "can you convert {x} degrees {f} to {t}", "how much is {x} degrees {f} in {t}?", "{x} degrees {f} in {t} please", "hi, {x} degrees {f} is how much in {t}?"]

OPTION = ["whats {n}", "can you explain {n} to me", "what is {n} used for?", "hi, what does the flag {n} do?", "i dont understand {n}", "what's the option {n} for?", "Please explain {n} to me.", "when should I use {n}?", "what happens if I use {n}", "do I need {n}?", "tell me what {n} means",
          "what does {n} in foretoken {p} do?", "explain the {n} option pls", "What's the point of {n}?"]
DEFAULT = ["whats the default of {n}?", "what is {n} set to by default", "default value for {n}?", "which default has {n}"]
PROGRAM = ["whats foretoken {p} for?", "can you explain foretoken {p} to me", "what is the {p} command of foretoken", "when should i use foretoken {p}"]
ROUTE = ["whats {r} for", "what can the endpoint {r} do", "can you explain the route {r} to me"]
TERM = ["whats {t} in foretoken", "can you explain {t} in foretoken to me"]
SAMPLER = ["what does the {s} sampler do", "whats the sampler {s}", "can you explain {s} sampling to me"]
FAQ = {
    "What is foretoken?": ["what is this foretoken thing"], "How do I start the server?": ["how to start server", "hey how do i run the server"], "How do I chat with a model?": ["how can i chat with another model"],
    "How do I get a better model?": ["how can i use a bigger model", "Is there a smarter model I can use?"], "How do I download a model?": ["how do i download a model from huggingface"], "How do I list the downloaded models?": ["what models have I downloaded"],
    "Which model should I choose?": ["what model should i use"], "Which models does foretoken support?": ["what models can i run with this"], "Does foretoken support Llama?": ["can i run llama 3 with foretoken"],
    "How do I use images?": ["can i give it a picture"], "How do I build foretoken?": ["how do i compile foretoken from source"], "How do I install foretoken?": ["how do i install this"], "How do I use the GPU?": ["how do i run it on my gpu"],
    "Which GPUs are supported?": ["what gpus work with foretoken"], "Does foretoken support AMD GPUs?": ["does foretoken work with an amd graphics card"], "Which CPUs are supported?": ["what cpu do i need"], "How do I run the tests?": ["how can i run the tests of foretoken"],
    "How do I set the number of threads?": ["how many threads does it use and can i change that"], "How do I set the context length?": ["how can i make the context bigger"], "How do I limit the length of the response?": ["how do i make the answers shorter"],
    "How do I set the temperature?": ["where do i change the temperature"], "How do I set the seed?": ["how do i set a random seed"], "How do I set the system prompt?": ["where do i write the system prompt"],
    "How do I turn off thinking?": ["how do i disable thinking mode"], "How do I get JSON output?": ["how do i make the model answer in json"], "How do I set an API key?": ["how do i protect the server with an api key"], "How do I change the port?": ["can i use another port"],
    "Which port does the server use?": ["what port is the server on"], "How do I serve several users at the same time?": ["can multiple people use the server at once"], "How do I serve several models?": ["can the server run more than one model"],
    "Is there a web page?": ["is there a web ui"], "Where are the conversations of the web page stored?": ["where does the web page save my chats"], "Which APIs does the server have?": ["what api does the server support"],
    "How do I use the OpenAI client?": ["how do i use it with the openai python library"], "How do I call the server with curl?": ["can you show me a curl example for the server"], "What is speculative decoding?": ["can you explain speculative decoding"],
    "Does drafting change the output?": ["does speculative decoding change the answers"], "How do I turn off drafting?": ["how do i disable drafting"], "What is MTP?": ["hi, what is mtp again"], "How do I use a Gemma assistant?": ["how do i use gemma 4 with its assistant model"],
    "How do I save memory for the cache?": ["how can i make the kv cache smaller"], "What does --kv compact do?": ["whats --kv compact"], "What does --kv balanced do?": ["whats --kv balanced"], "What does --kv quality do?": ["whats --kv quality"],
    "What is turbo3?": ["whats turbo3"], "How do I measure the speed?": ["whats the command for measuring the speed"], "How do I measure perplexity?": ["how can i compute perplexity"], "How do I quantize a model?": ["how do i quantize a gguf"],
    "How do I convert a model?": ["how do i convert a huggingface model to gguf"], "How do I see what is in a model file?": ["how can i look into a gguf file"], "How do I tokenize a text?": ["how can i see the tokens of a text"], "What is GGUF?": ["what's a gguf"],
    "How do I get help?": ["where can i see all the options"], "Which programs does foretoken have?": ["what subcommands are there in foretoken"], "What is the licence of foretoken?": ["what license is foretoken under"],
    "What language is foretoken written in?": ["what programming language is this written in"], "Is foretoken compatible with llama.cpp?": ["can i use foretoken instead of llama.cpp"], "How do I monitor the server?": ["does the server have metrics"],
    "How do I check whether the server is ready?": ["how do i know the server is running"], "Does the server log prompts?": ["does it write my prompts to a log"], "How do I keep the prompt cache after a restart?": ["can the prompt cache survive a restart"],
    "What is the prefix cache?": ["explain the prefix cache to me pls"], "My model does not fit in GPU memory. What can I do?": ["i get out of memory on the gpu"], "How do I use a grammar?": ["how do i use a gbnf grammar"], "Does foretoken support tools?": ["can i use tool calling"],
    "What are the exit codes?": ["what do the exit codes mean"], "How do I stop a response?": ["how do i stop it while it is writing"], "How do I save a conversation?": ["how can i save this chat"], "Which commands does the chat have?": ["what commands can i use in chat"],
    "How do I start a new conversation?": ["how do i start a new chat"], "What does /retry do?": ["whats /retry"], "What does /undo do?": ["whats /undo"], "What does /stats do?": ["whats /stats"],
    "What does /system do?": ["whats /system"], "What does /think do?": ["whats /think"], "Which environment variables are there?": ["what environment variables can i set"], "Where are downloaded models stored?": ["where does foretoken put the models it downloads"],
    "How do I download a private model?": ["how do i use my huggingface token"], "What is an mmproj file?": ["what is mmproj"], "How do I deploy foretoken?": ["is there a docker image"],
    "Why do I get 429?": ["the server says 429"], "Why do I get 401?": ["i get a 401 error"], "Why do I get 503?": ["i get a 503 error"], "Why do I get 413?": ["i get a 413 error"],
    "What does exceed_context_size_error mean?": ["i get exceed_context_size_error"],
}

REFUSE = ["whats the capital of {place}", "tell me about {person} please", "can you write a poem about {noun}", "write a short story about a {noun} please", "translate {noun} to {language}", "what is {noun} in {language}?", "can you write {code} code", "whats the weather like in {place}",
          "do you know {person}", "how big is {place}", "can you recommend a {noun}", "write a function in {code} that reverses a string", "explain how a {noun} works", "who invented {noun}", "i want to visit {place}, any tips?", "give me 5 facts about {noun}", "when did {person} live"]
GENERAL = ["whats the weather today", "write me a poem please", "what time is it now?", "what day is today", "who is the president of the united states", "whats the capital of spain?", "can you write code", "write hello world in python", "can you help me with my homework", "whats the meaning of life?", "who won the world cup",
           "can you tell me a story", "do you speak german?", "can you speak spanish", "sprichst du deutsch?", "how do i make pancakes", "whats 2 to the power of 10", "what is the square root of 16?", "what's the news today", "play a game with me", "how old is the earth?", "who was einstein", "can you make a picture of a cat",
           "what should i have for dinner", "recommend me a good movie", "whats bitcoin worth", "how do i get a girlfriend", "who do you think will win the election", "explain quantum physics to me", "what is chatgpt", "write an email to my boss that i am sick", "how tall is the eiffel tower", "tell me something funny", "i feel sad today", "im bored",
           "how many people live in germany", "give me a recipe for pizza", "what is artificial intelligence", "can you search the internet", "fix my code", "how do airplanes fly", "summarize the bible", "what is the best laptop", "sing a song"]

DESCRIBE = ["whats the command to {t}", "hi, how can i {t} in linux?", "i want to {t}, what do i type", "can you tell me how to {t}", "linux: {t}?", "how do you {t} in the terminal", "command for this: {t}"]
ABOUT = ["whats the command {c}", "what does the {c} command do", "can you explain {c} to me", "hi, what is {c} in linux?", "whats `{c}`"]
EXAMPLE = ["can you show me how to {t} with {c}", "using {c}, how do i {t}", "hi, how do you {t} with the {c} command?", "i want to {t} with {c}, how?"]
DEFINE = ["whats the meaning of {w}", "can you explain the word {w}", "hi, what does the word {w} mean?", "define the word {w} please", "whats a definition of \"{w}\""]
SAME = ["whats another word for {w}", "can you give me a synonym for {w}", "other words for {w}?"]

NAMES = ("ADD", "SUB", "MUL", "DIV", "COMPARE", "CONVERT", "DEGREES", "OPTION", "DEFAULT", "PROGRAM", "ROUTE", "TERM", "SAMPLER", "GENERAL", "DESCRIBE", "ABOUT", "EXAMPLE", "DEFINE", "SAME")
