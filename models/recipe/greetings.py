"""Greetings as people type them: short forms, other languages, and slips of the keyboard made by a generator.

wordings.py leaves out those that are a held-out wording; such a short form is trained with other words beside it alone."""

SHORT = {
    "hello": """gm|gm gm|gmorning|g morning|g'morning|gud morning|gud mrng|gd mrng|mrng|morn|mornin|mornings|good morn|good mornin|goodmorning|gooood morning|mawnin|good evenin|goodevening|gud evening|gud eve|good eve|evenin|gud afternoon|goodafternoon|
        good arvo|arvo|g'day|gday|gud day|hlo|hlw|hllo|hlloo|helo|heloo|helloo|hellooo|helllo|hellow|hellos|ello|'ello|elo|hullo|hulloo|hii|hiii|hiiii|hy|hai|haii|hay|hie|heyy|heyyy|heey|heyo|heya|heyaa|hiya|hiyaa|yoo|yooo|yo yo|ey|eyy|ayy|ayo|oi|oy|howdy|howdie|hihi|hi hi|
        sup hi|hi guys|hi bb|hiho|hey ho|hi5|hewwo|henlo|wb|welcome back|hola|holaa|hola hola|ola|hallo|halo|haloo|allo|salut|bonjour|bonsoir|coucou|buongiorno|buona sera|buenos dias|buenas|buenas tardes|buenas noches amigo|guten tag|guten morgen|guten abend|
        tag|moin|moin moin|servus|hallöchen|gruezi|grüezi|grüß gott|gruess gott|griaß di|hej|hei|heisann|hej hej|halla|hoi|hoi hoi|goedemorgen|goedendag|goeiedag|goedenavond|god dag|god morgon|god morgen|moi|moikka|terve|tere|ahoj|cau|czesc|cześć|dzien dobry|dobry den|dobar dan|zdravo|
        bok|privet|zdravstvuyte|dobroe utro|namaste|namaskar|vanakkam|salam|salaam|as-salamu alaykum|assalamu alaikum|marhaba|ahlan|merhaba|selam|gunaydin|shalom|boker tov|konnichiwa|konbanwa|ohayo|ohayou|moshi moshi|ni hao|nihao|annyeong|annyeonghaseyo|sawasdee|xin chao|
        kumusta|apa kabar teman|selamat pagi|jambo|habari|sawubona|aloha|kia ora|talofa|bom dia|boa tarde|boa noite amigo|buna ziua|buna|geia sou|kalimera|sveiki|labas|tervist|dia dhuit|bore da|kaixo|bon dia|saluton|salve|ave|ahoy|ahoy there|こんにちは|你好|привет|안녕|नमस्ते|مرحبا|γεια σου""",
    "how": """hru|hru today|hw r u|how r u|how ru|howru|how r ya|how r u doing|how u|how u doin|hows u|hows ya|how ya doin|how ya been|howve you been|howdy do|how do|how goes|how goes it|hows tricks|how's tricks|hows life|hows it goin|howz it going|howz life|howz you|hows everything|
        wsup|whatsup|watsup|wats up|whats poppin|supp|zup|sup sup|sup|sup with you|wyd|wyd rn|how be you|u ok|u good|u alright|r u ok|wie gehts|wie geht's|wie geht es dir|wie gehts dir|alles klar|alles gut|ca va|ça va|comment vas tu|comment allez vous|como estas|cómo estás|
        que tal|qué tal|que pasa|que onda|come stai|come va|tudo bem|tudo bom|como vai|hur mar du|hur är läget|hoe gaat het|hoe is het|kak dela|hvordan går det|hvordan har du det|mita kuuluu|genki|ogenki desu ka|nasilsin|jak sie masz|jak leci|jak se mas|ni hao ma|kaise ho|kya haal hai|apa kabar|habari gani|
        ti kaneis|ce mai faci|hogy vagy""",
    "thanks": """thx|thnx|tnx|thanx|tks|tx|txs|thks|thnks|thnk you|thank ya|thank u|thanku|thankyou|thankya|thankss|thanksss|thanku so much|ty|tyy|tysm|tyvm|tyty|tyia|tia|ta|ta very much|ta muchly|cheers|cheers mate|kthx|k thx|kk thx|ok thx|ok ty|thx m8|thx u|thx bro|thx alot|thanks alot|thanks m8|much thx|many thx|big thx|
        appreciate it|appreciated|u saved me|u helped|ur a star|merci|merci beaucoup|merci bien|danke|danke dir|danke schoen|danke schön|danke sehr|dankeschön|vielen dank|besten dank|gracias|muchas gracias|mil gracias|grazie|grazie mille|obrigado|obrigada|muito obrigado|valeu|arigato|arigatou|arigato gozaimasu|domo|domo arigato|
        xie xie|xiexie|spasibo|bolshoe spasibo|dziekuje|dzięki|dzieki|tack|tack sa mycket|tack så mycket|takk|tusen takk|mange tak|kiitos|kiitti|bedankt|dank je|dankjewel|dank u wel|mahalo|shukran|shukraan|tesekkurler|sagol|toda|toda raba|dhanyavad|shukriya|efharisto|dekuji|diky|hvala|kamsahamnida|gomawo|cam on|asante|
        asante sana|mersi|multumesc|koszonom|aitah|paldies|aciu|diolch|gracies|moltes gracies|salamat|terima kasih|khop khun|ありがとう|谢谢|спасибо|감사합니다|شكرا|ευχαριστώ""",
    "bye": """gn|gn8|gnite|gnight|g'night|gn all|good nite|gud night|gud nite|gudnight|goodnight|goodnite|nite|nite nite|nighty|nighty night|night night|nini|cu|cya|cyaa|c ya|c u|cul8r|cu l8r|c u later|c u l8r|cu soon|cu tmrw|c u tomorrow|see ya|seeya|see yaa|see u|see u tmrw|see ya soon|l8r|l8rs|l8er|later|laters|later gator|
        see you later alligator|ttyl|ttys|ttyt|t2ul|talk 2 u later|talk l8r|brb|bbl|bbs|bbiab|gtg|g2g|gotta go|got to go|gotta dash|gotta bounce|gotta leave|i gtg|afk|bb|bibi|b bye|bubye|buh bye|byee|byeee|byeeee|byebye|bye bye|bye byee|by bye|goodby|goodbyee|good byee|gudbye|gud bye|gdbye|tata|ta ta|ta-ta|toodles|toodle-oo|cheerio|pip pip|
        peace out|i'm out|im out|imma head out|i'm off|im off|off to bed|so long|signing off|logging out|over and out|have a good one|have a good 1|hagd|take care|tc|adios|adiós|adieu|au revoir|a bientot|à bientôt|a plus|a demain|bonne nuit|tschuess|tschüss|tschüssi|tschau|ciao|ciao ciao|ciao bella|auf wiedersehen|bis bald|bis später|
        bis dann|bis morgen|gute nacht|mach's gut|hasta luego|hasta la vista|hasta manana|hasta pronto|nos vemos|buenas noches|arrivederci|a presto|buonanotte|sayonara|mata ne|oyasumi|do svidaniya|poka|poka poka|hej da|hejdå|god natt|ha det|vi ses|dag dag|doei|doei doei|tot ziens|welterusten|do widzenia|na razie|na shledanou|zai jian|zaijian|wan an|
        ate logo|até logo|tchau|tchau tchau|boa noite|farvel|adeus|nakemiin|heippa|moi moi|hade|hosca kal|gule gule|lehitraot|laila tov|ma salama|alvida|kwaheri|lala salama|antio|la revedere|viszlat|さようなら|再见|пока|안녕히 계세요|مع السلامة""",
    "wrong": """worng|wron|wrongg|wrnog|rong|nope wrong|nop wrong|nah wrong|nah thats wrong|nope thats wrong|nope not it|incorect|incorrect|incorret|thats wrong|thats worng|its wrong|not right|not rigth|thats not it|thats not rite|thats false|thats bs|bs|false|no thats wrong|no no wrong|ur wrong|u r wrong|ur mistaken|that aint right|
        that aint it|nuh uh|thats rubbish|thats trash|thats garbage|rubbish|garbage|total nonsense|what no|wat no|wtf no|smh wrong|thats so wrong|thats not correct|not correct|not true|isnt right|this aint right|u messed up|u made a mistake|u got it wrong|u dont get it|bad bot|dumb bot|stupid bot""",
    "praise": """gr8|gr8 job|gr8 work|g8|noice|nicee|niceee|nice1|nice one|nicely done|gj|gj bot|gg|wp|well played|good stuff|goood|awsome|awesum|amazin|amazing|amazeballs|ur great|u r great|u r awesome|ur the best|u r the best|ur awesome|ur cool|ur smart|u rock|you rock|love it|luv it|luv this|epic|lit|dope|sick answer|bravo|kudos|props|
        impressive|very impressive|super duper|good bot|great bot|best bot|good one|good 1|well done u|thats gr8|thats nice|thats cool|thats awesome|thats great|thats amazing|so good|sooo good|so cool|so nice|soo nice|wow nice|wow cool|wow gr8|perfecto|bravissimo|prima|toll|super|genial|sugoi|exzellent|muy bien|tres bien|sehr gut""",
    "ok": """k|k then|kk|kk then|okk|okkk|oki|oki doki|okie|okies|okey|okay then|okie dokie|okey dokey|okeydokey|alrite|alrighty|alrighty then|aight|ight|ait|gotcha|got ya|gotya|gotit|got it now|roger|roger that|copy|copy that|10-4|yep|yepp|yup|yupp|yea|yeah|yeaah|yah|ya|yas|yess|yesss|ye|yeh|uh huh|uhhuh|nope|nop|noo|nooo|nah|naw|nay|
        idk|idk man|idc|nvm|nvmd|nevermind|nm|np|no prob|no probs|lol|lolol|loool|lmao|lmfao|rofl|haha|hahaha|hahah|hehe|hehehe|heh|hihi|xd|hmm|hmmm|hmmmm|hm|mhm|mhmm|mmm|mm|mkay|mk|m'kay|sure thing|sure sure|fine|fine fine|ic|oic|oh ic|i c|ah ok|ah k|ahh|ahhh ok|aha|aha ok|ok k|ok ok|ok kk|okok|bet|word|tru|true that|meh|eh|eh ok|ehh|fair enough|
        fair|fair nuff|cool beans|whatevs|whatev|dunno|i dunno|maybe|mebbe|prolly|perhaps|gimme a sec|one sec|1 sec|sec|jk|just kidding|tbh idk|makes sense|da|si|oui|ja|jawohl|genau|va bene|vale|bueno|d'accord""",
}
SHORT = {k: [a.strip() for a in v.replace('\n', '').split('|')] for k, v in SHORT.items()}
OTHER = {a: k for k, v in SHORT.items() for a in v}
MATE = "(bot|foretoken|model|AI|ai|computer|machine|friend|my friend|buddy|bud|pal|mate|m8|bro|dude|man|all|everyone|everybody|folks|guys|team|there|you|u|tiny|little one|little model|tiny model|robot|assistant|chat|again|dear|sir|boss|amigo|world|pc|llm|chatbot|little bot|tiny bot|people|ppl|fam|homie|partner|champ|sunshine|sweetie|bestie)"
END = "(|||||!|!!|.|..|...|?| :\\)| :D| ;\\)| <3| xD| 😊| 👋| 🙂| hehe| lol|~|,)"
BEFORE = "(ok|oh|well|ah|so|and|um|hm|right|aw|oh wow|alright|anyway|yes|now|eh|ok then|haha|lol|uh)"
AFTER = {
    "hello": ["to you", "to you too", "to all", "from me", "from my laptop", "how nice to see you", "its me", "it's me", "i am here", "im here", "im new", "im back", "nice to meet u", "nice to meet you", "can we talk", "lets chat", "whats new", "anyone there", "u there", "you there", "are you there", "r u there", "just saying hi", "first time here",
              "testing this", "trying this out", "lets start", "lets go", "good to see u", "long time no see", "wake up", "ready to chat"],
    "how": ["today", "doing", "now", "rn", "these days", "this morning", "tonight", "lately", "my friend", "over there", "there", "bot", "buddy", "man", "then", "little model"],
    "thanks": ["a lot", "so much", "very much", "for that", "for the help", "for ur help", "for your help", "for the answer", "for the info", "for this", "for everything", "again", "a bunch", "a ton", "a million", "i mean it", "that helped", "that works", "it works now", "ur the best", "you are great", "really", "once more", "that was quick"],
    "bye": ["for now", "for today", "then", "now", "tomorrow", "tmrw", "soon", "later", "i have to go", "i gotta go", "im tired", "im going to bed", "have fun", "take care", "talk soon", "until tomorrow", "and thx", "and thanks", "it was fun", "thats all", "that is all", "have a nice day", "sleep well", "and good luck", "was nice talking"],
    "wrong": ["try again", "again", "answer", "bot", "sorry", "i think", "man", "dude", "check it", "totally", "completely", "for sure"],
    "praise": ["bot", "work", "answer", "job", "really", "man", "dude", "wow", "indeed", "keep it up", "i like it", "very much"],
    "ok": ["then", "now", "got it", "i see", "cool", "good", "sure", "fine", "bot", "man", "i guess", "whatever", "sounds good", "go on"],
}


def patterns(intent):
    """Patterns as in wordings.py, each several times: their share grows with the number of their wordings alone."""
    quote = lambda s: ''.join('\\' + c if c in '()[]|\\' else c for c in s)
    atom = '(' + '|'.join(map(quote, SHORT[intent])) + ')'
    after = '(' + '|'.join(map(quote, AFTER[intent])) + ')'
    alone, both = f"{atom}{END}", [f"{atom}[,] {MATE}{END}", f"{atom}[,|!|.] {after}{END}", f"{BEFORE}[,] {atom}{END}"]
    return [alone] * 6 + both * 2 + [f"{atom}[,] {atom}{END}", f"{BEFORE}[,] {atom} {MATE}{END}"]


NEAR = {"a": "sqz", "b": "vn", "c": "xv", "d": "sfe", "e": "wr", "f": "dg", "g": "fh", "h": "gjy", "i": "uo", "j": "hk", "k": "jl", "l": "ko", "m": "n", "n": "bm", "o": "ipl", "p": "ol", "q": "wa", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc", "y": "tu", "z": "x"}


def slip(R, word):
    """One slip: two letters swapped, one left out, one doubled or repeated, or one of its neighbours on the keyboard."""
    n, kind = len(word), R.choice("ssdde" + "rr" + "n" * (len(word) > 3) + "v" * (len(word) > 5))
    if n < 2 or not word.isalpha():
        return word
    if n == 2:
        kind = R.choice("er")
    if kind == 's':
        i = R.choice([i for i in range(n - 1) if n > 3 or i])
        return word[:i] + word[i + 1] + word[i] + word[i + 2:]
    if kind == 'd' and n > 3:
        i = R.randrange(n)
        return word[:i] + word[i + 1:]
    if kind == 'n':
        i = R.randrange(n)
        return word[:i] + R.choice(NEAR.get(word[i].lower(), word[i])) + word[i + 1:]
    if kind == 'v':
        i = R.choice([i for i, c in enumerate(word) if i and c in 'aeiou'] or [n - 1])
        return word[:i] + word[i + 1:]
    if kind == 'r':
        i = R.choice([n - 1, R.randrange(n)])
        return word[:i] + word[i] * R.randrange(2, 5) + word[i + 1:]
    i = R.randrange(n)
    return word[:i] + word[i] + word[i:]


def slips(R, q, intent):
    """q with one or two slips, or with a space left out or in the wrong place; q itself if that is a greeting of another kind."""
    words = q.split(' ')
    for _ in range(R.choice((1, 1, 1, 2))):
        i, x = R.randrange(len(words)), R.random()
        if x < .12 and i + 1 < len(words):
            words[i:i + 2] = [words[i] + words[i + 1]]
        elif x < .16 and i + 1 < len(words) and len(words[i]) > 2 and words[i].isalpha():
            words[i:i + 2] = [words[i][:-1], words[i][-1] + words[i + 1]]
        else:
            body = words[i].rstrip('.,!?:;)')
            words[i] = slip(R, body) + words[i][len(body):]
    s = ' '.join(words)
    return q if OTHER.get(s.lower().rstrip('.!?'), intent) != intent else s
