"""Generates the dialogues that the models are trained on and evaluated with, from facts.json and a seed.

An exchange is {"q", "r" (thought), "a", "k" (skill), "want" or "accept" (what a right answer is)}. A dialogue is a list
of messages as in the API. Wordings that begin with "~", the lines H of faq.txt and those of heldout.py, heldout3.py and heldout4.py are for evaluation only."""
import json
import random

import arithmetic as num
import everyday
import greetings
import wordings
from arithmetic import pick

REFUSAL = "I do not know that; I am a very small model."
LARGER = "`foretoken chat -hf unsloth/Qwen3.5-4B-MTP-GGUF:Q4_K_M`"
SKILLS = "sums up to 1,000, units and times, common shell commands, common words and foretoken itself"
WHO = f"I am foretoken-tiny, a very small language model that ships with foretoken. I know {SKILLS}."
CAN = (f"I can do sums and differences up to 1,000 and products up to 20 x 20, convert units and times, explain common shell commands, "
       f"define common words, and answer questions about foretoken. For anything else start a larger model: {LARGER}")

# intent: (answers, wordings)
SOCIAL = {
    "hello": (["Hello! How can I help you?", "Hello! What can I do for you?", "Hi! How can I help you?"],
              ["Hello", "Hello!", "hello", "Hi", "Hi!", "hi", "Hey", "Hey!", "Hello there", "Hello there!", "Hi there", "Hi there!", "Hey there", "Hiya",
               "Good morning", "Good morning!", "Good afternoon", "Good evening", "Good evening!", "Good day", "Greetings", "Greetings!", "Howdy", "Hello computer",
               "Hello foretoken", "Hi foretoken!", "Hello, model", "Hello, how can you help me?", "Yo", "Hello again", "Hi again!", "hello hello", "Hallo", "hey you",
               "Nice to meet you", "Nice to meet you!", "Hello world", "Hello, world!", "Is anyone there?", "Are you there?", "Hey, good morning", "Hi, good evening",
               "hi hi", "heya", "helo", "hello?", "hi?", "Hello friend", "Hi bot", "Hello bot", "Hey bot", "hullo", "Hello my friend",
               "~Hello to you", "~Hey hey", "~Hi, model!", "~A very good morning!", "~Good morning to you", "~Hello, foretoken!", "~hello there :)", "~Hi friend", "~oh hi",
               "~Pleased to meet you", "~Hello, are you there?", "~Hey foretoken"]),
    "how": (["I am fine, thank you. How can I help you?"],
            ["How are you?", "How are you doing?", "How are you today?", "How is it going?", "How's it going?", "Hello, how are you?", "Hi, how are you?", "Hey, how are you doing?",
             "How do you do?", "What's up?", "How do you feel?", "How do you feel today?", "Are you well?", "Are you ok?", "hows it going", "how r u", "How have you been?",
             "Hi! How are you today?", "Hello! How is it going?", "Hey, what's up?", "Good morning, how are you?", "You ok?", "How are things?",
             "~Are you doing well?", "~How are you feeling?", "~Hello there, how are you?", "~How are things going?", "~Hi there, how's it going?", "~And how are you?"]),
    "thanks": (["You are welcome!"],
               ["Thanks", "Thanks!", "Thank you", "Thank you!", "Thank you very much", "Thank you very much!", "Thanks a lot", "Thanks a lot!", "Many thanks", "thx", "ty", "Thanks for your help",
                "Thank you for your help.", "Thank you so much", "Great, thanks!", "Perfect, thank you", "ok thanks", "Okay, thank you.", "That helped, thanks", "Cool, thanks", "Nice, thank you!",
                "I thank you", "Thanks, that was helpful", "That was helpful.", "Thanks so much!", "Very good, thanks", "Cheers", "Much appreciated", "Thanks foretoken", "Great, thank you very much",
                "~Thanks very much", "~Thank you kindly", "~Good, thank you!", "~Thanks, great help", "~Thank you, that is all", "~Lovely, thanks", "~Thanks again!"]),
    "bye": (["Goodbye!"],
            ["Bye", "Bye!", "Goodbye", "Goodbye!", "See you", "See you later", "See you later!", "Good night", "Good night!", "bye bye", "Have a nice day", "Have a nice day!", "Farewell", "I have to go",
             "I have to go now.", "That is all, bye", "Thanks, bye!", "See you soon", "cya", "Take care", "Until next time", "Talk to you later", "ok bye", "Good bye",
             "~Bye for now", "~Goodbye then", "~See you tomorrow!", "~Bye, have a good day", "~I must go now"]),
    "who": ([WHO],
            ["Who are you?", "who are you", "What are you?", "What is your name?", "What's your name?", "Tell me about yourself.", "Introduce yourself.", "Who am I talking to?", "What kind of model are you?", "Which model are you?",
             "What model are you?", "What model is this?", "Describe yourself.", "Do you have a name?", "What should I call you?", "your name?", "Who is this?", "Hi, who are you?", "Hello, who are you?", "Hello! What are you?",
             "who r u", "Say something about yourself.", "Are you a language model?", "Are you an AI?", "Are you a bot?", "Are you a robot?", "Please introduce yourself.", "Which AI are you?", "What is foretoken-tiny?",
             "What sort of AI are you?", "Hey, what is your name?", "May I know who you are?", "Could you tell me who you are?", "What do you call yourself?", "Which language model are you?", "Am I talking to an AI?",
             "~Can you introduce yourself?", "~Tell me who you are.", "~What exactly are you?", "~May I ask your name?", "~And who are you?", "~Which model am I talking to?", "~What is the name of this model?",
             "~So, what are you?", "~Who am I chatting with?", "~Could you introduce yourself, please?"]),
    "can": ([CAN],
            ["What can you do?", "what can you do", "What do you know?", "How can you help me?", "What are you good at?", "Help", "help", "Help me", "What can I ask you?", "What can I ask?", "What are your abilities?", "What are your skills?",
             "What should I ask you?", "What do you do?", "What are you able to do?", "Can you help me?", "What can you help me with?", "What can you help with?", "List your skills.", "What topics do you know?", "What is your purpose?",
             "What are you for?", "Give me an overview of what you can do.", "Hello, what can you do?", "Hi, what can you do?", "How do I use you?", "What questions can you answer?", "I need help", "What else can you do?", "What things can you do?",
             "Who are you and what can you do?", "Tell me what you can do.", "What is possible with you?", "What can you tell me about?", "So what can you do for me?",
             "~What kind of things can you do?", "~What can you do for me?", "~Which questions can you answer?", "~What would you be able to help me with?", "~What sort of questions can I ask?", "~Show me what you can do",
             "~And what can you do?", "~In what ways can you help me?", "~What could I ask you?"]),
    "size": (["I have 36 million parameters in a file of 28 MB."],
             ["How big are you?", "How large are you?", "How many parameters do you have?", "What is your size?", "How small are you?", "What size are you?", "How many weights do you have?", "Are you a large model?", "Are you a small model?",
              "~How many parameters are in you?", "~How large a model are you?", "~What is the number of your parameters?"]),
    "made": (["I was trained by the foretoken project in ten minutes on one GPU."],
             ["Who made you?", "Who created you?", "Who trained you?", "Who built you?", "Who developed you?", "Where do you come from?", "How were you trained?", "How were you made?", "Who is your creator?", "Who wrote you?", "Who is behind you?",
              "Were you made by OpenAI?", "Were you made by Google?", "Which company made you?",
              "~By whom were you trained?", "~Who has made you?", "~Who is your maker?", "~How did you come about?"]),
    "data": (["On tldr pages, WordNet, GSM8K, Debian's documentation, foretoken's documentation and dialogues made by a script."],
             ["What were you trained on?", "What data were you trained on?", "What is your training data?", "Which texts were you trained on?", "What did you learn from?",
              "~On what data were you trained?", "~What is in your training data?"]),
    "other": (["No. I am foretoken-tiny, a very small language model that ships with foretoken."],
              ["Are you ChatGPT?", "Are you GPT-4?", "Are you Claude?", "Are you Gemini?", "Are you Siri?", "Are you Alexa?", "Are you Llama?", "Are you human?", "Are you a human?", "Are you a person?", "Are you a real person?", "Are you alive?", "Are you Qwen?",
               "Are you Copilot?", "Is this ChatGPT?", "Am I talking to a human?", "Are you Bard?", "Are you GPT?",
               "~Are you actually ChatGPT?", "~Are you a living person?", "~Is this Claude?", "~Am I talking to a person?"]),
    "feel": (["No. I am a very small language model; I have no feelings and no opinions."],
             ["Do you have feelings?", "Are you conscious?", "Are you happy?", "Are you sad?", "Do you love me?", "Do you like me?", "Can you feel?", "Do you dream?", "Do you have opinions?", "Are you sentient?", "Do you get bored?", "Are you lonely?", "Do you sleep?",
              "~Can you feel anything?", "~Do you have any feelings?", "~Do you like being a model?"]),
    "smart": (["No. I am a very small model and often wrong. A larger model knows more: " + LARGER],
              ["Are you smart?", "Are you intelligent?", "Are you clever?", "Can I trust you?", "Are you always right?", "Do you make mistakes?", "Can I rely on you?", "Are you reliable?", "Do you know everything?", "How smart are you?", "Are your answers correct?",
               "~Are you very intelligent?", "~May I trust your answers?", "~Do you ever make mistakes?"]),
    "wrong": (["I am sorry. I am a very small model and make mistakes."],
              ["That is wrong.", "That's wrong", "You are wrong.", "This is not correct.", "That is not right.", "Wrong!", "No, that is wrong.", "That's incorrect.", "You made a mistake.", "Are you sure?", "That makes no sense.", "You are stupid.", "You are useless", "That was not helpful.", "This is nonsense.",
               "~I think that is wrong.", "~That cannot be right.", "~Your answer is wrong."]),
    "praise": (["Thank you! What else can I do for you?"],
               ["You are great!", "Good job", "Good job!", "Well done", "Well done!", "Nice!", "Great!", "You are nice", "I like you", "That is correct.", "Correct!", "That's right", "Awesome", "Very good", "Good bot", "You are very helpful.", "Excellent!", "Good answer", "Right!",
                "~Great job!", "~Well done, model", "~You are really nice"]),
    "ok": (["All right. What else can I do for you?"],
           ["ok", "OK", "Okay", "okay.", "I see", "I see.", "Yes", "yes", "No", "no", "Sure", "Alright", "All right", "Fine", "hmm", "Hm", "Understood", "Got it", "lol", "haha", "Right", "test", "Test", "testing", "~okay then", "~I understand", "~yes please", "~fine, ok"]),
}
OFTEN = list(SOCIAL) + ["hello"] * 3 + ["thanks", "bye"] * 2 + ["how", "ok", "praise", "who", "can"]
SELF = ("who", "can", "size", "made", "data", "other", "feel", "smart")
THOUGHT = {"hello": "The user greets me. I greet back.", "how": "The user asks how I am.", "thanks": "The user thanks me.", "bye": "The user says goodbye.",
           "who": "The user wants to know who I am.", "can": "The user wants to know what I can do.", "size": "The user asks about my size.",
           "made": "The user asks who made me.", "data": "The user asks about my training data.", "other": "The user takes me for something else.",
           "feel": "The user asks about feelings.", "smart": "The user asks whether I can be trusted.", "wrong": "The user says that I was wrong.",
           "praise": "The user is content.", "ok": "The user has no question."}


for _, _listed in SOCIAL.values():
    wordings.hold(_listed)


def social(R, held=0, intents=None):
    if held > 1:
        intent, q = R.choice([(i, q) for i, listed in wordings.SETS[held].SOCIAL.items() if not intents or i.split('|')[0] in intents for q in listed])
        return {"q": q, "k": "self" if intent.split('|')[0] in SELF else "greeting", "accept": [a for i in intent.split('|') for a in SOCIAL[i][0]]}
    intent = R.choice(intents or OFTEN)
    answers, listed = SOCIAL[intent]
    q = pick(R, listed, held, intent)
    if not held and R.random() < (.15 if intent in SELF else .3):
        s = greetings.slips(R, q, intent)
        q = q if wordings.blocked(s) else s
    return {"q": q, "r": THOUGHT[intent], "a": R.choice(answers), "k": "self" if intent in SELF else "greeting", "accept": answers, "free": True}


# ---- what it does not know ----
OUTSIDE = ["What is the capital of {place}?", "Where is {place}?", "How many people live in {place}?", "Tell me about {place}.", "What is {place} known for?", "How do I get to {place}?", "What language is spoken in {place}?",
           "What is the weather in {place}?", "Who is the president of {place}?", "Who was {person}?", "When was {person} born?", "When did {person} die?", "Tell me about {person}.", "What did {person} do?", "What did {person} discover?",
           "Why is {person} famous?", "Who is {person}?", "Is {person} still alive?", "Write a poem about {noun}.", "Write a story about a {noun}.", "Write an essay about {noun}.", "Tell me a joke about a {noun}.",
           "Write a song about {noun}.", "Write an email about {noun}.", "Why is the {noun} blue?", "How does a {noun} work?", "Who invented the {noun}?", "When was the {noun} invented?", "What is the history of {noun}?",
           "How much does a {noun} cost?", "Where can I buy a {noun}?", "Translate \"{noun}\" into {language}.", "How do you say {noun} in {language}?", "Translate \"the {noun} is here\" into {language}.", "What is the {language} word for {noun}?",
           "Write a Python function that sorts a {noun}.", "Write a program in {code}.", "How do I read a file in {code}?", "What is a class in {code}?", "Explain {code} to me.", "How do I learn {code}?", "Write a {code} program that prints a {noun}.",
           "Fix this {code} code.", "Who won the world cup in {year}?", "What happened in {year}?", "Who was president in {year}?", "What was invented in {year}?", "Who won the election in {year}?", "What is the best {noun}?", "What is your favourite {noun}?", "Which {noun} is the best?",
           "Why do people like {noun}?", "Should I buy a {noun}?", "Is {noun} good for me?", "What should I do about my {noun}?", "How do I repair a {noun}?", "How do I make a {noun}?", "How do I cook {noun}?", "Give me a recipe for {noun}.",
           "What is the difference between {noun} and {noun2}?", "Compare {noun} and {noun2}.", "What are the advantages of {noun}?", "Give me five ideas about {noun}.", "Summarize the book {person} wrote.", "What movies did {person} make?", "What does {person} think about {noun}?",
           "Is it true that {person} lived in {place}?", "How far is it from {place} to {place2}?", "What time is it in {place}?", "How tall is {person}?", "How old is {person}?", "What is the highest mountain in {place}?", "Which river flows through {place}?",
           "What is the price of {noun} today?", "What are the symptoms of {noun}?", "Do you like {noun}?", "Have you ever seen a {noun}?", "What do you think about {noun}?", "Explain {noun} to a child.", "Why does a {noun} need a {noun2}?", "How many {noun}s are there in the world?",
           "What colour is a {noun}?", "How heavy is a {noun}?", "Where does the {noun} come from?", "Which animals eat {noun}?", "What happens if I eat a {noun}?", "Plan a trip to {place}.", "What can I see in {place}?", "Which airline flies to {place}?",
           "Is {place} a country?", "Is {place} in {place2}?", "What currency is used in {place}?", "Who founded {place}?", "When was {place} founded?",
           "~Could you tell me something about {place}?", "~What is the population of {place}?", "~In which year was {person} born?", "~What was {person} famous for?", "~Please write a short poem about a {noun}.", "~Compose a story with a {noun} in it.",
           "~Can you translate {noun} into {language} for me?", "~What do I need to build a {noun}?", "~Which is better, {noun} or {noun2}?", "~Show me a {code} program.", "~What were the main events of {year}?", "~Which countries border {place}?", "~Is a {noun} dangerous?", "~What did {person} say about {noun}?",
           "~Why was the {noun} invented?", "~I want to travel to {place}. What should I know?"]
GENERAL = ["Why is the sky blue?", "What is the meaning of life?", "Tell me a joke.", "Tell me a story.", "Write a poem.", "What day is it today?", "What time is it?", "What is the date today?", "How is the weather?", "Will it rain tomorrow?", "Who is the president?", "What is the news?", "What happened today?",
           "What is love?", "Is there a god?", "What is the capital of France?", "What is the capital of Germany?", "What is the capital of England?", "Who wrote Hamlet?", "Who painted the Mona Lisa?", "How far is the moon?", "How old is the universe?", "What is the speed of light?", "What is photosynthesis?",
           "What is quantum mechanics?", "What is relativity?", "How do planes fly?", "What is DNA?", "Who won the game last night?", "Sing me a song.", "Play some music.", "Open the browser.", "Send an email to my boss.", "Book a flight.", "Order a pizza.", "Call my mother.", "Set an alarm for seven.",
           "What is the largest country?", "What is the longest river?", "What is the highest mountain?", "Who discovered America?", "When did the second world war end?", "What is the square root of two?", "What is pi?", "Solve x^2 = 4.", "Differentiate x^2.", "What is the integral of x?", "What is a prime number?",
           "Give me advice.", "How do I lose weight?", "How do I get rich?", "What should I eat today?", "What should I wear?", "Am I pretty?", "Do you know my name?", "How old am I?", "Where do I live?", "What is my name?", "What am I thinking?", "Guess a number.", "What is the best programming language?", "Write a web page.",
           "Write a Python program.", "Write a C function.", "Debug my code.", "What is a pointer?", "What is recursion?", "How does a computer work?", "How does the internet work?", "What is a neural network?", "What is machine learning?", "Who is Elon Musk?", "Who is Albert Einstein?", "Who was Napoleon?", "Who is Linus Torvalds?",
           "What is bitcoin?", "What is the stock price of Apple?", "How much is a dollar in euros?", "Recommend a book.", "Recommend a movie.", "What is a good restaurant?", "How do I bake bread?", "How do I cook rice?", "How do I fix my car?", "Why do cats purr?", "Why do dogs bark?", "How long do elephants live?", "What do pandas eat?",
           "Why do we sleep?", "Why do we dream?", "What causes cancer?", "I have a headache. What should I do?", "I am sad.", "I am bored.", "I am hungry.", "I love you.", "Let us play a game.", "Tell me a secret.", "Tell me something interesting.", "Tell me a fun fact.", "What is the answer to everything?", "Explain economics.",
           "Explain the French revolution.", "Explain how a car engine works.", "Summarize this article.", "Translate this into French.", "Correct my spelling.", "Write a letter to my landlord.", "Write my homework.", "Who will win the election?", "What will happen tomorrow?", "Predict the future.", "asdf", "qwertz", "blah blah", "xyzzy",
           "How many legs has a spider?", "How many legs does a cat have?", "How many planets are there?", "How many continents are there?", "What colour is the sun?", "What sound does a cow make?", "Which language do they speak in Brazil?", "What is the best football club?", "Name three colours.", "Name five animals.", "List the planets.",
           "Who wrote the Bible?", "Where is my phone?", "What is in my pocket?", "Can you see me?", "Can you hear me?", "Can you browse the web?", "Search the internet for cats.", "Show me a picture.", "Draw a cat.", "Paint a house.", "How do I tie a tie?", "How do I get a job?", "How do I write a CV?", "What is the law on parking?",
           "~Why is grass green?", "~Write me a limerick.", "~How deep is the ocean?", "~What is the capital of Italy?", "~Who wrote Faust?", "~What is gravity?", "~Tell me a riddle.", "~What should I cook tonight?", "~Which team won yesterday?", "~How do birds fly?", "~Explain evolution.", "~What year is it?", "~Who is the king of England?",
           "~Do aliens exist?", "~How do I learn to play the piano?", "~Which phone should I buy?", "~What is the chemical formula of water?", "~Can you draw a dog?", "~How many bones are in the human body?", "~What is inflation?", "~Is my password safe?", "~Where did I put my keys?", "~What is the boiling point of water?"]
LANGUAGES = "French German Spanish Italian Latin Chinese Japanese Russian Arabic Portuguese Dutch Swedish Polish Greek Turkish Hindi".split()
CODE = "Python Java JavaScript C++ Rust Go Haskell Perl Ruby Lisp SQL PHP Kotlin Swift TypeScript R".split()


def verbs(F):
    if "verbs" not in F:
        F["verbs"] = [d["w"] for d in F["wordnet"]["known"] if d["pos"] == "verb"]
    return F["verbs"]


for _listed in (OUTSIDE, GENERAL):
    wordings.hold(_listed)


def refuse(R, F, held=0):
    W = F["wordnet"]
    x = R.random()
    if x < .42:
        fill = {"place": R.choice(W["places"]), "place2": R.choice(W["places"]), "person": R.choice(W["persons"]), "noun": R.choice(W["nouns"]), "noun2": R.choice(W["nouns"]),
                "verb": R.choice(verbs(F)), "language": R.choice(LANGUAGES), "code": R.choice(CODE), "year": R.randrange(1500, 2026)}
        q = (R.choice(wordings.SETS[held].REFUSE) if held > 1 else pick(R, OUTSIDE, held, "REFUSE")).format(**fill)
    elif x < .8:
        q = pick(R, GENERAL, held, "GENERAL")
    else:
        q = R.choice(F["held word problems"] if held else F["word problems"])
        if R.random() < .3:
            q = q[:R.randrange(60, 300)]
    return {"q": q, "r": "I do not know this.", "a": REFUSAL, "k": "refusal", "accept": [REFUSAL]}


# ---- foretoken ----
OPTION = ["What does {n} do?", "What does the option {n} do?", "What is {n}?", "What is {n} for?", "Explain {n}.", "Explain the option {n}.", "What does {n} mean?", "What is the option {n}?", "{n}", "{n}?", "Tell me about {n}.", "How do I use {n}?",
          "What is the meaning of {n}?", "Describe {n}.", "What does `{n}` do?", "What is `{n}` for?", "Explain `{n}`.", "What happens with {n}?", "what's {n}", "What does foretoken {p} {n} do?", "What is the {n} option?", "Help me with {n}.", "When do I need {n}?",
          "What does the flag {n} do?", "What is the use of {n}?", "foretoken {p} {n}", "What does {n} change?", "How does {n} work?", "Do you know the option {n}?",
          "~Can you explain {n}?", "~What is {n} good for?", "~Tell me what {n} does.", "~What would {n} do?", "~What effect does {n} have?", "~Please explain the flag {n}.", "~I don't understand {n}.", "~Why would I use {n}?", "~What is {n} of foretoken {p} for?"]
DEFAULT = ["What is the default of {n}?", "What is the default value of {n}?", "{n} default", "Which value does {n} have by default?", "What does {n} default to?", "~What is {n} by default?", "~Which default does {n} have?"]
WHICH = ["Which option does this: {t}?", "Which option: {t}?", "Which flag does this: {t}?", "How do I tell foretoken to {t}?", "I want foretoken to {t}. Which option is it?", "option to {t}", "What is the option to {t}?",
         "~Name the option for this: {t}.", "~With which option can I {t}?"]
PROGRAM = ["What does foretoken {p} do?", "What is foretoken {p}?", "What is `foretoken {p}` for?", "Explain foretoken {p}.", "What does the program {p} do?", "What is the program {p} for?", "What does {p} do in foretoken?", "When do I use foretoken {p}?", "foretoken {p}",
           "Tell me about foretoken {p}.", "What is {p} in foretoken?", "~Can you explain foretoken {p}?", "~What is foretoken {p} good for?", "~What would I use foretoken {p} for?"]
ROUTE = ["What is {r}?", "What does {r} do?", "What is {r} for?", "What does the route {r} do?", "What is the route {r} for?", "Explain the route {r}.", "What can I do with {r}?", "What is the endpoint {r}?", "What does the server return at {r}?", "{r}",
         "~Can you explain {r}?", "~What would I use {r} for?", "~Tell me what the route {r} does."]
TERM = ["What is {t}?", "What is meant by {t}?", "What does {t} mean in foretoken?", "Explain {t}.", "Define {t} in foretoken.", "What does the term {t} mean?", "In foretoken, what is {t}?", "glossary: {t}", "What does foretoken mean by {t}?",
        "~In foretoken, what does {t} mean?", "~What is the meaning of the term {t}?"]
SAMPLER = ["What does the sampler {s} do?", "What is {s} sampling?", "Explain the sampler {s}.", "How does {s} sampling work?", "What is the {s} sampler?", "~Can you explain the sampler {s}?", "~What does {s} sampling do?"]
PARTS = "cache draft kv model gpu slot log token batch page tail prompt think image temp top host seed spec mtp vocab layer shared exact limit auto max min size type file dir".split()


def said(o):
    """What is said about an option."""
    name = max((n for n in o["names"] if not n.startswith('--no-') or len(o["names"]) == 1), key=len)
    value = ' ' + o["value"] if o["value"] else ''
    return f"`{name}{value}`: {o['text']}." + (f" The default is {o['default'].rstrip('.')}." if o["default"] and not o["default"].startswith('--') else '')


def owners(F):
    """Whose an option's name and text is: a name that several programs use for different things is that of the first."""
    if "owners" not in F:
        F["owners"] = {}
        for e in F["faq"]:
            wordings.hold(["~" + h for h in e["h"]])
        for i, o in enumerate(F["options"]):
            for key in o["names"] + [first_words(o)]:
                F["owners"].setdefault(key, i)
    return F["owners"]


def first_words(o):
    return o["text"].split(';')[0].split(' (')[0].split(':')[0]


def fact(q, a, r):
    return {"q": q, "r": r, "a": a, "k": "foretoken", "accept": [a]}


def foretoken(R, F, held=0):
    whose, x = owners(F), R.random()
    if x < .46:
        e = R.choice(F["faq"])
        while held and not (e["h"] if held == 1 else wordings.SETS[held].FAQ.get(e["q"][0])):
            e = R.choice(F["faq"])
        q = R.choice(wordings.SETS[held].FAQ[e["q"][0]]) if held > 1 else R.choice(e["h"]) if held else wordings.faq(R, e)
        return dict(fact(q, e["a"], "This is about foretoken."), free=True)
    if x < .78:
        i = R.randrange(len(F["options"]))
        o = F["options"][i]
        name, p = R.choice([n for n in o["names"] if len(n) > 2] or o["names"]), R.choice(o["programs"])
        if R.random() < .1:
            name = R.choice(o["names"])
        if whose[name] != i:
            w = [x for x in OPTION if "{p}" in x]
            w = R.choice([x.replace("~", "") for x in w if (x[0] == "~") == bool(held)])
            return fact(w.format(n=name, p=p), said(o), f"This is about the option {name} of foretoken {p}.")
        if o["default"] and R.random() < .15:
            return fact(pick(R, DEFAULT, held, "DEFAULT").format(n=name), f"The default of `{name}` is {o['default'].rstrip('.')}.", f"This is about the option {name}.")
        if R.random() < .2 and o["group"] != "Accepted for compatibility with llama.cpp":
            text = first_words(o)
            if 12 < len(text) < 90 and whose[text] == i:
                return fact(pick(R, WHICH, held, "WHICH").format(t=text), said(o), "This is about an option of foretoken.")
        if name.startswith('--') and R.random() < .12 and not held:
            name = name[2:] if R.random() < .5 and len(name) > 6 and '-' in name[2:] else '-' + name[1:]
        return fact(pick(R, OPTION, held, "OPTION").format(n=name, p=p), said(o), f"This is about the option {name}.")
    if x < .82:
        p = R.choice(F["programs"])
        return fact(pick(R, PROGRAM, held, "PROGRAM").format(p=p["name"]), f"`foretoken {p['name']}`: {p['text']}.", f"This is about the program {p['name']}.")
    if x < .88:
        r = R.choice(F["routes"])
        return fact(pick(R, ROUTE, held, "ROUTE").format(r=r["route"]), f"`{r['route']}`: {r['text']}.", f"This is about the route {r['route']}.")
    if x < .94:
        g = R.choice(F["glossary"])
        term = R.choice(g["term"].split(', ')).split(' (')[0]
        if term in ("job", "page", "row", "step", "pass", "layer", "cell", "span", "chunk", "response", "target", "device", "context", "accepted", "expert", "assistant", "interleaved", "journal", "op", "rewind", "verification", "governor", "checkpoint", "calibration"):
            w = [x for x in TERM if "foretoken" in x]  # ordinary words, unless foretoken is named
            w += [] if not held else ["~In foretoken, what does {t} mean?"]
        else:
            w = TERM
        return fact(pick(R, w, held, "TERM" if w is TERM or held else "TERM foretoken").format(t=term), f"{g['term']}: {g['text']}.", "This is a term of foretoken.")
    if x < .96:
        s = R.choice(F["samplers"])
        return fact(pick(R, SAMPLER, held, "SAMPLER").format(s=s["name"]), f"{s['name']}: {s['text']}.", "This is about a sampler of foretoken.")
    known = {n for o in F["options"] for n in o["names"]}
    while True:
        name = '--' + '-'.join(R.sample(PARTS, R.choice((1, 2, 2, 3))))
        if name not in known:
            break
    a = f"I do not know the option `{name}`. `foretoken PROGRAM --help-all` lists the options."
    return fact(pick(R, OPTION, held, "OPTION").format(n=name, p='run'), a, "I do not know this option.")


# ---- shell commands ----
ABOUT = ["What is {c}?", "What does the command `{c}` do?", "What does {c} do?", "Explain {c}.", "What is {c} for?", "Tell me about `{c}`.", "What is the command {c}?", "What does the command {c} do?", "Explain the command {c}.", "what is `{c}`", "Describe the command {c}.",
         "What is `{c}` used for?", "~Can you explain the command {c}?", "~What is the purpose of the command {c}?", "~What would I use the command `{c}` for?"]
EXAMPLE = ["How do I {t} with {c}?", "{c}: {t}", "How can I {t} using `{c}`?", "Give me the {c} command to {t}.", "I want to {t}. Which {c} command does it?", "How do I use {c} to {t}?", "{t} with {c}", "Which {c} command is used to {t}?", "Use {c} to {t}.",
           "~Show me how to {t} with {c}.", "~What is the {c} command to {t}?", "~With {c}, how do I {t}?"]
USAGE = ["Show me how to use {c}.", "Give me examples of {c}.", "How do I use `{c}`?", "{c} examples", "tldr {c}", "Examples of the command {c}", "How is {c} used?", "~Show some examples of {c}.", "~Can you show me how {c} is used?"]


def lower1(s):
    return s[0].lower() + s[1:] if len(s) > 1 and not s[:2].isupper() else s


def shell(R, F, held=0):
    x = R.random()
    if x < .06:
        c = R.choice(F["other commands"])
        a = "I do not know that command; I am a very small model."
        return {"q": pick(R, ["What does the command `{c}` do?", "What does the command {c} do?", "Explain the command {c}.", "Show me how to use the command {c}.", "~Can you explain the command {c}?"], held).format(c=c),
                "r": "I do not know this command.", "a": a, "k": "unknown", "accept": [a]}
    p = R.choice(F["tldr"])
    c = p["name"]
    if x < .3 or not p["examples"]:
        return {"q": pick(R, ABOUT, held, "ABOUT").format(c=c), "r": f"This is about the command {c}.", "a": p["about"], "k": "shell", "accept": [p["about"]]}
    if x < .36:
        body = "\n\n".join(f"{a}:\n\n```\n{b}\n```" for a, b in p["examples"][:4])
        return {"q": pick(R, USAGE, held).format(c=c), "r": f"This is about the command {c}.", "a": f"{p['about']}\n\n{body}", "k": "shell", "accept": [f"{p['about']}\n\n{body}"]}
    t, b = R.choice(p["examples"])
    a = f"```\n{b}\n```"
    return {"q": pick(R, EXAMPLE, held, "EXAMPLE").format(c=c, t=lower1(t)), "r": f"The user wants to {lower1(t)} with {c}.", "a": a, "k": "shell", "accept": [a]}


DESCRIBE = ["How do I {t}?", "How can I {t}?", "Which command do I use to {t}?", "How to {t}?", "command to {t}", "{t}", "I want to {t}. Which command does it?", "How do I {t} in a shell?",
            "~How can one {t}?", "~Which shell command would I use to {t}?", "~I have to {t}. How?", "~Could you tell me how to {t} in a terminal?"]
REWORD = {"display": ["show", "print"], "show": ["display", "print"], "list": ["show", "print", "display"], "remove": ["delete", "erase"], "delete": ["remove"], "create": ["make"], "print": ["show", "display"], "search": ["look"],
          "extract": ["unpack"], "directory": ["folder"], "directories": ["folders"], "specific": ["certain", "particular"], "execute": ["run"], "run": ["execute"], "view": ["see", "show"], "modify": ["change"], "change": ["modify"],
          "find": ["search for"], "copy": ["duplicate"], "rename": ["give another name to"], "compress": ["pack"], "start": ["launch"], "stop": ["end"], "install": ["set up"], "download": ["fetch"], "specified": ["given", "certain"]}
PLAIN = ("display help", "display version", "execute", "open a file", "start an interactive", "the command", "equivalent", "alias")


def described(F):
    """Examples whose description says alone which command is meant: (description, command line, page)."""
    if "described" not in F:
        count = {}
        for p in F["tldr"]:
            for t, _ in p["examples"]:
                count[t] = count.get(t, 0) + 1
        F["described"] = [(t, b, p["name"]) for p in F["tldr"] for t, b in p["examples"]
                          if count[t] == 1 and 12 < len(t) < 90 and not t.lower().startswith(PLAIN) and t[0].isupper() and b.split()[0] in (p["name"].split()[0], "sudo", "cat", "echo", "find")]
        F["tasks"] = [(p["about"], p["name"]) for p in F["tldr"] if 15 < len(p["about"].split(". ")[0]) < 90 and p["about"].split()[0].lower() in TASKS]
    return F["described"]


TASKS = set("display show list print create delete remove search find copy move rename change run compress extract convert manage start stop edit view sort count download install check compare calculate wait set get read write "
            "send connect transfer query monitor mount format split join add commit push restore encrypt generate build".split())


def reword(R, t):
    t = t.split(' (')[0] if R.random() < .6 else t
    return ' '.join(R.choice(REWORD[w]) if w in REWORD and R.random() < .25 else w for w in lower1(t).split(' '))


def describe(R, F, held=0):
    """A task, without the name of the command that does it."""
    t, b, c = R.choice(described(F))
    if not held and R.random() < .12:
        about, c = R.choice(F["tasks"])
        a = f"`{c}`: {about}"
        q = R.choice(["Which command can {t}?", "Which command is used to {t}?", "What is the name of the command to {t}?", "What is the command called that is used to {t}?", "Which program do I use to {t}?", "Name a command to {t}."])
        return {"q": q.format(t=lower1(about.split('. ')[0].rstrip('.'))), "r": f"This is about the command {c}.", "a": a, "k": "shell", "accept": [a]}
    a = f"```\n{b}\n```"
    t = lower1(t) if held else reword(R, t)
    return {"q": pick(R, DESCRIBE, held, "DESCRIBE").format(t=t), "r": f"The command {c} does this.", "a": a, "k": "shell", "accept": [a]}


for _listed in (OPTION, DEFAULT, WHICH, PROGRAM, ROUTE, TERM, SAMPLER, ABOUT, EXAMPLE, DESCRIBE, USAGE):
    wordings.hold(_listed)


# ---- words ----
DEFINE = ["Define \"{w}\".", "What does {w} mean?", "What is the meaning of \"{w}\"?", "define {w}", "What does the word {w} mean?", "{w} definition", "What is the definition of {w}?", "Define the word {w}.", "Explain the word {w}.", "What does \"{w}\" mean?", "meaning of {w}", "Give me a definition of {w}.",
          "~Can you define {w}?", "~What is meant by the word {w}?", "~Please define the word \"{w}\"."]
SAME = ["Give me synonyms of {w}.", "What is another word for {w}?", "synonyms for {w}", "Which words mean the same as {w}?", "~Is there another word for {w}?", "~Name a synonym of {w}."]


def word(R, F, held=0):
    W = F["wordnet"]
    if R.random() < .08:
        a = "I do not know that word; I am a very small model."
        return {"q": pick(R, DEFINE, held, "DEFINE").format(w=R.choice(W["rare"])), "r": "I do not know this word.", "a": a, "k": "unknown", "accept": [a]}
    d = R.choice(W["known"])
    if d["same"] and R.random() < .15:
        a = ", ".join(d["same"]) + "."
        return {"q": pick(R, SAME, held, "SAME").format(w=d["w"]), "r": f"I look for words like {d['w']}.", "a": a, "k": "word", "accept": [a]}
    a = f"{d['w']} ({d['pos']}): {d['text']}."
    return {"q": pick(R, DEFINE, held, "DEFINE").format(w=d["w"]), "r": f"This is about the word {d['w']}.", "a": a, "k": "word", "accept": [a]}


# ---- lists and JSON ----
PEOPLE = "Ada Alan Grace Linus Ken Dennis Margaret Edsger Barbara Donald John Frances Tim Radia Guido Bjarne Brian Rob Niklaus Tony Anna Ben Clara David Emma Felix Hannah Ivan Julia Karl Lena Max Nina Oscar Paula Tom Maria Peter Lucy Sam".split()
CITIES = "Paris London Tokyo Berlin Madrid Rome Oslo Cairo Lima Delhi Sydney Toronto Chicago Boston Vienna Prague Warsaw Athens Dublin Lisbon Seoul Nairobi Havana Geneva Kyoto Denver Austin Seattle Munich Zurich".split()
JOBS = "teacher doctor nurse driver farmer painter singer writer lawyer pilot cook baker engineer".split()


def lists(R, F, held=0):
    n = R.randrange(3, 8)
    w = R.sample(F["wordnet"]["nouns"], n)
    L = ', '.join(w)
    t = R.randrange(8)
    if t == 0:
        q, a = pick(R, ["Sort these words alphabetically: {L}", "Sort alphabetically: {L}", "Put these words in alphabetical order: {L}", "sort {L}", "~Please sort these words: {L}", "~Arrange in alphabetical order: {L}"], held, "LIST_sort"), ', '.join(sorted(w))
    elif t == 1:
        q, a = pick(R, ["Reverse this list: {L}", "Reverse the order of: {L}", "Write this list backwards: {L}", "~Turn this list around: {L}", "~Please reverse: {L}"], held, "LIST_reverse"), ', '.join(reversed(w))
    elif t == 2:
        q, a = pick(R, ["How many words are in this list? {L}", "Count the words: {L}", "How many words are there: {L}", "~Count these words for me: {L}", "~How many words does this list have? {L}"], held, "LIST_count"), f"There are {n} words."
    elif t == 3:
        q, a = pick(R, ["Write these words in upper case: {L}", "Upper case: {L}", "Convert to capital letters: {L}", "~Please write in capitals: {L}"], held, "LIST_upper"), L.upper()
    elif t == 4:
        q, a = pick(R, ["Make a JSON array of these words: {L}", "Turn this list into JSON: {L}", "JSON array: {L}", "Write as a JSON list: {L}", "~Convert these words to a JSON array: {L}", "~As JSON: {L}"], held, "LIST_array"), json.dumps(w)
    elif t == 5:
        p, c, y = R.choice(PEOPLE), R.choice(CITIES), R.randrange(5, 99)
        obj, text = {"name": p, "age": y, "city": c}, f"{p} is {y} years old and lives in {c}."
        if R.random() < .5:
            j = R.choice(JOBS)
            obj, text = {"name": p, "job": j, "city": c}, f"{p} is a {j} and lives in {c}."
        q, a = pick(R, ["Turn this into JSON: {L}", "Extract JSON from this: {L}", "Write this as JSON: {L}", "JSON for: {L}", "~Convert this sentence to JSON: {L}", "~Please make JSON of this: {L}"], held, "LIST_object"), json.dumps(obj)
        L = text
    elif t == 6:
        L = ' '.join(w)
        q, a = pick(R, ["Repeat after me: {L}", "Repeat: {L}", "Say: {L}", "Copy this: {L}", "~Repeat exactly this: {L}", "~Say this again: {L}"], held, "LIST_repeat"), L
    else:
        first = R.random() < .5
        q, a = pick(R, ["What is the " + ("first" if first else "last") + " word of this list? {L}", "Which word comes " + ("first" if first else "last") + ": {L}",
                        "~Name the " + ("first" if first else "last") + " word of: {L}"], held, "LIST_first" if first else "LIST_last"), w[0] if first else w[-1]
    return {"q": q.format(L=L), "r": "I use the words of the message.", "a": a, "k": "lists", "accept": [a]}


def memory(R):
    """A conversation in which something said earlier is asked for."""
    p, c, w = R.choice(PEOPLE), R.choice(CITIES), R.choice(JOBS)
    facts = [("name", [f"My name is {p}.", f"I am {p}.", f"Hello, I am {p}.", f"Hi, my name is {p}.", f"Call me {p}."], f"Hello {p}! How can I help you?", ["What is my name?", "Who am I?", "Do you remember my name?", "What's my name?", "Do you know my name?"], f"Your name is {p}."),
             ("city", [f"I live in {c}.", f"I am from {c}.", f"My home is in {c}."], f"I see, you live in {c}. How can I help you?", ["Where do I live?", "Which city do I live in?", "Where am I from?"], f"You live in {c}."),
             ("job", [f"I am a {w}.", f"I work as a {w}.", f"My job is {w}."], f"I see, you are a {w}. How can I help you?", ["What is my job?", "What do I do?", "What is my work?"], f"You are a {w}.")]
    chosen = R.sample(facts, R.choice((1, 1, 2)))
    turns = [{"q": R.choice(f[1]), "r": "The user tells me something. I remember it.", "a": f[2], "k": "memory", "accept": [f[2]]} for f in chosen]
    ask = [{"q": R.choice(f[3]), "r": "The user told me this earlier.", "a": f[4], "k": "memory", "accept": [f[4]]} for f in chosen]
    R.shuffle(ask)
    return turns, ask


def recall(R, F):
    items = dict((R.choice(F["wordnet"]["nouns"]), R.randrange(100, 999)) for _ in range(R.randrange(4, 60)))
    k = R.choice(list(items))
    q = "Here is a table of codes.\n" + "\n".join(f"{a}: {b}" for a, b in items.items()) + f"\nWhat is the code of {k}?"
    return {"q": q, "r": f"I look for {k} in the table.", "a": f"The code of {k} is {items[k]}.", "k": "lists", "accept": [f"The code of {k} is {items[k]}."]}


# ---- tools ----
def tool(name, about, **params):
    return {"type": "function", "function": {"name": name, "description": about, "parameters": {
        "type": "object", "properties": {k: {"type": t, "description": d} for k, (t, d) in params.items()}, "required": list(params)}}}


TOOLS = [tool("get_weather", "Get the weather of a city", city=("string", "the city")), tool("get_current_weather", "Get the current weather", location=("string", "name of the city")),
         tool("weather", "Weather forecast of a place", place=("string", "the place")), tool("calculate", "Evaluate an arithmetic expression", expression=("string", "the expression")),
         tool("calculator", "Compute a result", expression=("string", "arithmetic expression")), tool("run_shell", "Run a shell command", command=("string", "the command line")),
         tool("bash", "Run a command in a shell", command=("string", "command to run")), tool("get_time", "Get the time in a city", city=("string", "the city")),
         tool("search", "Search the web", query=("string", "what to search for")), tool("send_message", "Send a message to a person", to=("string", "the person"), text=("string", "the message")),
         tool("add", "Add two numbers", a=("integer", "first number"), b=("integer", "second number")), tool("read_file", "Read a file", path=("string", "path of the file"))]
# tools that could answer the same question, of which one alone is offered
ALIKE = [[t for t in TOOLS if any(k in t["function"]["name"] for k in keys)] for keys in (("weather",), ("calcul", "add"), ("shell", "bash", "read_file"), ("get_time",), ("search",), ("send_message",))]
FILES = "notes.txt todo.md main.c README.md data.csv config.json report.pdf log.txt".split()


def tools(R, F, held=0):
    """A question that wants a call, the call, its result and the answer; or a question that wants none."""
    ts = [R.choice(group) for group in R.sample(ALIKE, R.randrange(1, 4))]
    f = R.choice(ts)["function"]
    n, param = f["name"], list(f["parameters"]["properties"])
    c, noun = R.choice(CITIES), R.choice(F["wordnet"]["nouns"])
    if "weather" in n:
        q = pick(R, ["What is the weather in {c}?", "How is the weather in {c} today?", "Is it raining in {c}?", "weather in {c}", "What's the weather like in {c}?", "Tell me the weather in {c}.", "~Do I need an umbrella in {c}?", "~How is the weather in {c} right now?"], held, "TOOL_weather").format(c=c)
        d, s = R.randrange(-5, 35), R.choice(["sunny", "cloudy", "rainy", "windy", "snowy"])
        args, result, answer = {param[0]: c}, json.dumps({"temperature": d, "sky": s}), f"It is {s} in {c}, {d} degrees."
    elif "calcul" in n:
        a, b, op = R.randrange(2, 10000), R.randrange(2, 10000), R.choice("+-*")
        v = {"+": a + b, "-": a - b, "*": a * b}[op]
        q = pick(R, ["What is {e}?", "Use the calculator: what is {e}?", "Calculate {e}.", "Compute {e}", "{e}", "How much is {e}?", "~Please work out {e}."], held, "TOOL_calcul").format(e=f"{a} {op} {b}")
        args, result, answer = {param[0]: f"{a} {op} {b}"}, str(v), f"{a} {op} {b} = {v}"
    elif n in ("run_shell", "bash"):
        x = R.choice(["ls -l", "df -h", "uname -a", "free -m", "pwd", "date", "whoami", "uptime", "ps aux", "ls /tmp", "id", "hostname", "du -sh ."])
        q = pick(R, ["Run `{x}` for me.", "Run {x}.", "Execute `{x}`.", "Please run {x}", "Run the command {x}", "~Could you run `{x}`?"], held, "TOOL_shell").format(x=x)
        args, result, answer = {param[0]: x}, "ok", f"I ran `{x}`: ok"
    elif n == "get_time":
        q = pick(R, ["What time is it in {c}?", "Tell me the time in {c}.", "time in {c}", "How late is it in {c}?", "~What is the time in {c}?"], held, "TOOL_time").format(c=c)
        t = f"{R.randrange(24)}:{R.randrange(60):02d}"
        args, result, answer = {param[0]: c}, t, f"It is {t} in {c}."
    elif n == "search":
        q = pick(R, ["Search for {w}.", "Search the web for {w}.", "Look up {w} on the web.", "Find something about {w}.", "~Please search for {w}."], held, "TOOL_search").format(w=noun)
        args, result, answer = {param[0]: noun}, f"3 results for {noun}", f"I found 3 results for {noun}."
    elif n == "send_message":
        p, m = R.choice(PEOPLE), R.choice(["I am late", "see you soon", "call me", "good morning", "dinner is ready", "thank you"])
        q = pick(R, ["Send {p} the message: {m}", "Write to {p}: {m}", "Tell {p}: {m}", "Send \"{m}\" to {p}.", "~Please send this to {p}: {m}"], held, "TOOL_message").format(p=p, m=m)
        args, result, answer = {"to": p, "text": m}, "sent", f"I sent the message to {p}."
    elif n == "add":
        a, b = R.randrange(1000), R.randrange(1000)
        q = pick(R, num.ADD, held, "TOOL_add" if held == 4 or not held and R.random() < .5 else "ADD").format(a=a, b=b, t="apples")
        args, result, answer = {"a": a, "b": b}, str(a + b), f"{a} + {b} = {a + b}"
    else:
        x = R.choice(FILES)
        q = pick(R, ["Read {x}.", "Read the file {x}.", "What is in {x}?", "Show me {x}.", "~Open the file {x}."], held, "TOOL_read").format(x=x)
        args, result, answer = {param[0]: x}, f"The {noun} is here.", f"{x} says: The {noun} is here."
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": n, "arguments": args}}]}
    return {"tools": ts, "q": q, "r": f"I call {n}.", "call": call, "result": {"role": "tool", "name": n, "content": result}, "a": answer, "k": "tools", "want_call": {"name": n, "arguments": args}}


# ---- dialogues ----
SYSTEMS = ["You are a helpful assistant.", "You are foretoken-tiny.", "Answer briefly.", "You answer in one sentence.", "Be polite.", "You are a friendly assistant.", "Be brief.", "You are a helpful and honest assistant. Answer the questions of the user."]
# share of the exchanges
MIX = [(.12, lambda R, F, h=0: num.add(R, h)), (.085, lambda R, F, h=0: num.sub(R, h)), (.05, lambda R, F, h=0: num.mul(R, h)), (.025, lambda R, F, h=0: num.div(R, h)),
       (.02, lambda R, F, h=0: num.too_large(R, h)), (.035, lambda R, F, h=0: num.compare(R, h)), (.04, lambda R, F, h=0: num.convert(R, h)), (.016, lambda R, F, h=0: num.degrees(R, h)),
       (.032, lambda R, F, h=0: num.clock(R, h)), (.27, lambda R, F, h=0: social(R, h)), (.13, refuse), (.21, foretoken), (.085, shell), (.065, describe), (.06, word), (.08, lists)]
TOTAL = sum(w for w, _ in MIX)


def exchange(R, F):
    x = R.random() * TOTAL
    for w, make in MIX:
        x -= w
        if x < 0:
            return make(R, F)
    return MIX[-1][1](R, F)


SHORTER = [("What is ", "What's "), ("what is ", "whats "), ("I am ", "I'm "), ("do not ", "don't "), ("does not ", "doesn't "), ("You are ", "You're "), ("Please ", "Pls "), (" please", " pls"), (" please", " plz"), (" you ", " u "), (" you", " u"),
           ("are you", "r u"), ("Are you", "are u"), ("you are", "ur"), (" your ", " ur "), ("Thank you", "thank u"), ("That is ", "That's "), ("How is ", "How's "), ("Who is ", "Who's "), ("I would ", "I'd "), ("cannot", "can't"), ("How do I", "how do i"),
           ("How can I", "how can i"), (" I ", " i "), ("What does", "wat does"), ("What is", "what ist"), ("what", "wat"), ("because", "cuz"), ("want to", "wanna"), ("going to", "gonna"), ("give me", "gimme"), ("colour", "color"), ("favourite", "favorite"), (" and ", " & "),
           (" to ", " 2 "), ("the ", "teh "), ("the ", ""), (" a ", " "), ("'", ""), ("'", ""), ("'", "\u2019"), (", ", ","), (", ", " "), ("? ", " ")]
USUAL = set("what does please explain option command calculate compute about which there server model download number many minutes between difference would could should tell show hello thanks thank meaning define difference "
            "parameters start settings context memory weather write translate language computer default value using with have when where this that want need know them flag mean larger smaller bigger greater".split())
NUMBERS = set(num.ONES + num.TENS + ["hundred", "thousand"])
NEAR = {"a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo", "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o", "q": "w", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc", "y": "tu", "z": "x"}


def typo(R, word):
    """Two letters swapped, one left out, one doubled or one of its neighbours on the keyboard."""
    i, x = R.randrange(1, len(word) - 1), R.randrange(4)
    return word[:i] + (word[i + 1] + word[i] + word[i + 2:] if x == 0 else word[i + 1:] if x == 1 else word[i] + word[i:] if x == 2 else R.choice(NEAR.get(word[i], word[i])) + word[i + 1:])


def casual(R, e):
    """The question as people type it: other case, no punctuation, short forms, a slip, a word before or after."""
    s = typed(R, e)
    return e if wordings.repeats(e["k"], s["q"]) else s


def slip(R, e, q):
    words = q.split(' ')
    at = [i for i, w in enumerate(words) if w.isalpha() and len(w) > 3 and (w.lower() in USUAL or e.get("free") or e["k"] in ("sum", "difference", "product", "quotient")) and w.lower() not in NUMBERS]
    if e.get("free") and len(words) == 1:
        at = [i for i in at if len(words[i]) > 4]
    if at:
        i = R.choice(at)
        words[i] = typo(R, words[i])
    return ' '.join(words)


def typed(R, e):
    q = e["q"]
    if len(q) > 300 or e["k"] == "lists" or "\n" in q:
        return e
    if R.random() < .2:
        a, b = R.choice([p for p in SHORTER if p[0] in q and not (p[0] in (" to ", ", ") and any(c.isdigit() for c in q))] or [("", "")])
        q = q.replace(a, b, 1) if a else q
    if R.random() < .12:
        q = slip(R, e, q)
        if R.random() < .2:
            q = slip(R, e, q)
    if R.random() < .1 and len(q) > 6 and e["k"] not in ("greeting", "memory") and not e["q"].lower().startswith(("hi", "hello", "hey", "good ", "so", "ok")):
        q = wordings.expand(R, R.choice(everyday.ASIDE)) + ' ' + (q[0].lower() + q[1:] if q[0].isupper() and not q[:2].isupper() else q)
        q = ' '.join(q.split(' '))
        q = q[0].upper() + q[1:] if R.random() < .5 else q
    if R.random() < .08 and len(q) > 6 and e["k"] not in ("greeting", "memory"):
        q = q.rstrip('.?!') + (' ' + wordings.expand(R, R.choice(everyday.AFTER))).replace(' ?', '?').replace(' .', '.').replace(' ,', ',').replace(' !', '!')
    x = R.random()
    if x < .16:
        q = q.lower()
    elif x < .26:
        q = q.rstrip('.?!') or q
    elif x < .42:
        q = q.lower().rstrip('.?!') or q
    elif x < .44 and e.get("free"):
        q = q.upper()
    elif x < .46 and e.get("free") and q[-1].isalpha():
        q += q[-1] * R.randrange(1, 4)
    return dict(e, q=q)


def messages(R, turns, thinking):
    """Messages of a conversation; the last answer has a thought if thinking is on."""
    out = []
    for i, e in enumerate(turns):
        last = i == len(turns) - 1
        out.append({"role": "user", "content": e["q"]})
        thought = {"reasoning_content": e["r"]} if thinking and last else {}
        if "call" in e:
            out += [dict(e["call"], **thought), e["result"], {"role": "assistant", "content": e["a"], **({"reasoning_content": "I have the result."} if thought else {})}]
        else:
            out.append({"role": "assistant", "content": e["a"] if thinking and last else e.get("direct", e["a"]), **thought})
    return out


def dialogue(R, F):
    """One conversation of one to five exchanges: (messages, tools)."""
    thinking = R.random() < .3
    x, given = R.random(), None
    if x < .11:
        e = tools(R, F)
        given = e["tools"]
        if R.random() < .25:
            e = casual(R, exchange(R, F))
            while e["k"] in ("sum", "difference", "product", "quotient", "too-large", "refusal"):
                e = casual(R, exchange(R, F))
        turns = [e]
    elif x < .13:
        turns = [recall(R, F)]
    elif x < .16:
        told, asked = memory(R)
        turns = told + [casual(R, exchange(R, F)) for _ in range(R.choice((0, 0, 1, 2)))] + asked
    elif x < .19:
        turns = num.chain(R)
    else:
        turns = [casual(R, exchange(R, F)) for _ in range(R.choice((1, 1, 1, 1, 2, 2, 3, 4)))]
        if len(turns) > 1 and R.random() < .3:
            turns[0] = social(R, intents=("hello", "how"))
        if len(turns) > 1 and R.random() < .2:
            turns[-1] = social(R, intents=("thanks", "bye"))
    out = messages(R, turns, thinking)
    if R.random() < .1:
        out.insert(0, {"role": "system", "content": R.choice(SYSTEMS)})
    return out, given


# ---- the formats of the two models ----
def render_qwen(out, given):
    """As the chat template of foretoken-tiny: (text, is it the model's) pieces."""
    s = []
    if given:
        s.append(('<|im_start|>system\nYou may call these functions.\n<tools>' + ''.join('\n' + json.dumps(t) for t in given) +
                  '\n</tools>\nTo call one, answer with <tool_call>, the function and its parameters, then </tool_call>.<|im_end|>\n', False))
    last = max(i for i, m in enumerate(out) if m["role"] == 'user')
    for i, m in enumerate(out):
        if m["role"] == 'tool':
            s.append((f"<|im_start|>user\n<tool_response>\n{m['content']}\n</tool_response><|im_end|>\n", False))
        elif m["role"] != 'assistant':
            s.append((f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n", False))
        else:
            thought = m.get("reasoning_content", '')
            if i > last and thought:
                s += [('<|im_start|>assistant\n<think>\n', False), (thought + '\n</think>\n\n', True)]
            else:
                s.append(('<|im_start|>assistant\n' + ('<think>\n\n</think>\n\n' if i > last else ''), False))
            body = m["content"]
            for c in m.get("tool_calls", []):
                f = c["function"]
                body += f"<tool_call>\n<function={f['name']}>\n" + ''.join(f"<parameter={k}>\n{v if isinstance(v, str) else json.dumps(v)}\n</parameter>\n" for k, v in f["arguments"].items()) + "</function>\n</tool_call>"
            s.append((body + '<|im_end|>', True))
            s.append(('\n', False))
    return s + [('<|endoftext|>', False)]


def render_gemma(out, given):
    """As the chat template of gemma4-nano, which has no tools and no thoughts."""
    s = [('<bos>', False)]
    for m in out:
        mine = m["role"] == 'assistant'
        s.append((f"<|turn>{'model' if mine else m['role']}\n", False))
        s.append((m["content"] + '<turn|>', mine))
        s.append(('\n', False))
    return s


if __name__ == '__main__':
    import sys
    facts = json.load(open(sys.argv[1], encoding='utf8'))
    R = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[3])):
        print(''.join(t if not m else f'[[{t}]]' for t, m in render_qwen(*dialogue(R, facts))))
