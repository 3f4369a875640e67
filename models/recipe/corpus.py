#!/usr/bin/env python3
"""Collects the facts and the plain text that the models are trained on.

usage: corpus.py SOURCES FORETOKEN OUT
  SOURCES     folder made by fetch.sh: tldr/, gsm8k/, tree/ (unpacked Debian packages)
  FORETOKEN   the program, whose --help-list is read
  OUT         folder for facts.json, plain.jsonl and heldout.txt"""
import collections
import gzip
import hashlib
import html
import json
import os
import random
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')
R = random.Random(20261116)
PROGRAMS = "run chat serve perplexity bench kvbench pull list rm convert tokenize inspect synth quantize template".split()


def read(*path):
    with open(os.path.join(*path), encoding='utf8') as f:
        return f.read()


# ---- foretoken itself ----

def faq():
    """The entries of faq.txt: answer, wordings, held-out wordings, patterns."""
    out = []
    for line in read(HERE, 'faq.txt').split('\n'):
        kind, text = line[:1], line[2:].strip()
        if kind == 'A':
            out.append({"a": text.replace('\\n', '\n'), "q": [], "h": [], "more": []})
        elif kind == 'Q':
            out[-1]["q"].append(text)
        elif kind in ('V', 'W', 'Y'):
            out[-1]["more"].append((kind, text))
        elif kind == 'H':
            out[-1]["h"].append(text)
    return out


def options(program):
    """Every option of every program, once: names, value, description, default, programs that have it."""
    found = collections.OrderedDict()
    for p in PROGRAMS:
        lines = subprocess.run([program, p, '--help-list'], capture_output=True, text=True, check=True).stdout
        for line in lines.strip().split('\n'):
            names, value, group, text = line.split('\t')
            m = re.match(r'(.*?)(?: \[(.*)\])?$', text, re.S)
            text, notes = m.group(1), m.group(2) or ''
            default = re.search(r'default: ([^;\]]*)', notes)
            key = names.split()[-1] if not names.split()[-1].startswith('--no-') else names.split()[0]
            o = found.setdefault((names, text), {"names": names.split(), "value": value, "text": text, "key": key,
                                                 "default": default.group(1) if default else '', "group": group, "programs": []})
            o["programs"].append(p)
    return list(found.values())


def table(text, columns):
    """The rows of the Markdown tables with this many columns."""
    for line in text.split('\n'):
        cells = [c.strip().replace('\\|', '|') for c in re.split(r'(?<!\\)\|', line.strip())[1:-1]]
        if len(cells) == columns and not set(cells[0]) <= set('-') and cells[0] not in ('term', 'method and path', 'sampler', 'status'):
            yield cells


def foretoken(program):
    plain = lambda s: re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', s)
    glossary = [{"term": t, "text": plain(d)} for t, d in table(read(ROOT, 'docs', 'glossary.md'), 2)]
    routes = []
    for path, text in table(read(ROOT, 'docs', 'api.md').split('## Examples')[0], 2):
        for r in re.findall(r'`(/[^`]*)`', path):
            routes.append({"route": r, "text": plain(text)})
    samplers = [{"name": n, "text": plain(t)} for n, t in table(read(ROOT, 'docs', 'sampling.md'), 2)]
    programs = []
    for line in subprocess.run([program, '--help'], capture_output=True, text=True, check=True).stdout.split('\n'):
        m = re.match(r'  ([a-z]+)  +(.*)', line)
        if m and m.group(1) in PROGRAMS:
            programs.append({"name": m.group(1), "text": m.group(2)})
    return {"faq": faq(), "options": options(program), "glossary": glossary, "routes": routes, "samplers": samplers, "programs": programs}


# ---- tldr ----

COMMANDS = """7z ack alias apropos apt apt-cache apt-get apt-mark arch ar arp as at awk base32 base64 basename bash batch bc bg bind blkid
break builtin bunzip2 bzip2 cal case cargo cat cd cfdisk chage chattr chfn chgrp chmod chown chroot chsh cksum clang clear cmake cmp column comm
command compgen convert cp cpio cron crontab csplit ctags curl cut cvs date dc dd declare df diff diff3 dig dir dirname dirs disown dmesg
dnf docker docker-build docker-compose docker-exec docker-images docker-logs docker-ps docker-run dos2unix dpkg dpkg-query du echo ed egrep
eject emacs enable env eval ex exec exit expand export expr factor false fdisk ffmpeg ffprobe fg fgrep file find findmnt finger fmt fold for
free fsck ftp fuser function gcc gdb getent getopts git git-add git-apply git-archive git-bisect git-blame git-branch git-checkout
git-cherry-pick git-clean git-clone git-commit git-config git-describe git-diff git-fetch git-format-patch git-gc git-grep git-init git-log
git-ls-files git-merge git-mv git-pull git-push git-rebase git-reflog git-remote git-reset git-restore git-revert git-rm git-shortlog git-show
git-stash git-status git-submodule git-switch git-tag git-worktree go gpg grep groupadd groupdel groupmod groups gunzip gzip halt hash hd head
hexdump history host hostname hostnamectl htop http iconv id if ifconfig info insmod install ip ip-address ip-link ip-route iptables jar java
javac jobs join journalctl jq kill killall last lastlog ldconfig ldd less let ln local locale locate login logname logout logrotate look
ls lsattr lsb_release lsblk lscpu lshw lsmod lsof lspci lsusb lua m4 mail make man md5sum mkdir mkfifo mkfs mknod mkswap mktemp modprobe
more mount mpv mv mysql nano nc netstat nice nl nm nmap node nohup npm nproc nslookup objdump od openssl pacman passwd paste patch perl
pgrep ping pip pkill popd poweroff pr printenv printf ps psql pstree pushd pv pwd python quota ranger rar rclone read readelf readlink realpath
reboot renice reset rev rg rm rmdir rmmod rpm rsync ruby rustc scp screen script sed seq service set sftp sh sha1sum sha256sum shift shred shuf
shutdown size sleep sort source split sqlite3 ss ssh ssh-add ssh-agent ssh-copy-id ssh-keygen stat strace strings strip stty su sudo sum
swapoff swapon sync sysctl systemctl tac tail tar tcpdump tee telnet test time timeout timedatectl tmux top touch tput tr traceroute trap tree
true truncate tty type tzselect ulimit umask umount unalias uname unexpand uniq unlink unset unxz unzip unzstd update-alternatives uptime
useradd userdel usermod users valgrind vi vim vmstat w wait watch wc wget whatis whereis which while who whoami xargs xxd xz yes youtube-dl
zcat zip zless zsh zstd""".split()


def tldr(sources):
    """Pages of the common commands, and the names of the others."""
    pages, others = [], []
    for section in ('common', 'linux'):
        folder = os.path.join(sources, 'tldr', 'pages', section)
        for name in sorted(os.listdir(folder)):
            command = name[:-3]
            if command not in COMMANDS or any(p["file"] == command for p in pages):
                others.append(command)
                continue
            md = read(folder, name)
            title = re.search(r'^# (.*)', md)
            about = [x[2:].strip() for x in md.split('\n') if x.startswith('> ') and not re.match(r'> (More information|See also|Note)', x)]
            clean = lambda s: re.sub(r'\{\{\[([^|\]]*)\|([^\]]*)\]\}\}', r'\2', s).replace('{{', '').replace('}}', '')
            examples = [(re.sub(r'\[([A-Za-z0-9])\]', r'\1', a).rstrip(':'), clean(b))
                        for a, b in re.findall(r'^- (.*?):?\n\n`(.*?)`\s*$', md, re.M) if not b.startswith('tldr ')]
            pages.append({"file": command, "name": title.group(1).strip(), "about": ' '.join(about), "examples": examples})
    return pages, others


# ---- WordNet ----

POS = {'n': 'noun', 'v': 'verb', 'a': 'adjective', 's': 'adjective', 'r': 'adverb'}


def wordnet(folder, known=6000):
    """Definitions of the most frequent words (by WordNet's own counts), a list of rare words, and names."""
    synsets = {}
    for part in ('noun', 'verb', 'adj', 'adv'):
        for line in open(os.path.join(folder, 'data.' + part), encoding='latin1'):
            if line.startswith('  '):
                continue
            left, gloss = line.rstrip('\n').split(' | ', 1)
            p = left.split(' ')
            words = [re.sub(r'\(.*?\)', '', p[4 + 2 * i]) for i in range(int(p[3], 16))]
            synsets[(p[0], part)] = (POS[p[2]], words, re.split(r'; "', gloss)[0].strip().rstrip(';'), int(p[1]))
    count = collections.Counter()
    for line in open(os.path.join(folder, 'cntlist.rev'), encoding='latin1'):
        key, _, n = line.split()
        count[key.split('%')[0]] += int(n)
    best = {}
    for part in ('noun', 'verb', 'adj', 'adv'):
        for line in open(os.path.join(folder, 'index.' + part), encoding='latin1'):
            if line.startswith('  '):
                continue
            p = line.split()
            k = int(p[3])
            tagged, first = int(p[4 + k + 1]), p[4 + k + 2]
            if p[0] not in best or tagged > best[p[0]][0]:
                best[p[0]] = (tagged, first, part)
    common = [w for w, _ in count.most_common() if w.isalpha() and len(w) > 2 and w in best][:known]
    chosen = set(common)
    out = []
    for w in common:
        pos, words, text, _ = synsets[best[w][1:]]
        same = [x.replace('_', ' ') for x in words if x.lower() != w][:4]
        out.append({"w": w, "pos": pos, "text": text, "same": same})
    rare = [w for w in best if w.isalpha() and w not in chosen and count[w] == 0 and 4 < len(w) < 14]
    R.shuffle(rare)
    # proper names: persons (lexicographer file 18), places (15)
    names = {"person": [], "place": []}
    for (_, part), (_, words, _, lex) in synsets.items():
        if part == 'noun' and lex in (15, 18) and words[0][:1].isupper() and len(words[0]) < 25:
            names["person" if lex == 18 else "place"].append(words[0].replace('_', ' '))
    for n in names.values():
        R.shuffle(n)
    nouns = [d["w"] for d in out if d["pos"] == 'noun' and 3 <= len(d["w"]) <= 9]
    return {"known": out, "rare": rare[:20000], "persons": names["person"][:3000], "places": names["place"][:3000], "nouns": nouns}


# ---- plain text ----

TAG = re.compile(r'<(script|style|head)[^>]*>.*?</\1>|<[^>]+>', re.S | re.I)


def from_html(s):
    s = re.sub(r'<(br|p|div|li|tr|h[1-6]|dt|dd|pre)[^>]*>', '\n', s, flags=re.I)
    s = re.sub(r'[ \t]+\n', '\n', html.unescape(TAG.sub('', s)))
    return re.sub(r'\n{3,}', '\n\n', s)


def from_man(s):
    s = '\n'.join(x for x in s.split('\n') if not x.startswith(('.\\"', "'\\\"")))
    s = re.sub(r'\\f.|\\&', '', s).replace('\\-', '-').replace('\\(aq', "'").replace('\\e', '\\')
    s = re.sub(r'^\.(TP|PP|P|LP|IP|RS|RE|fi|nf|br|sp|in|ad|hy|EX|EE).*$', '', s, flags=re.M)
    s = re.sub(r'^\.(B|I|BR|IR|RB|RI|BI|IB|SM)\s+', '', s, flags=re.M)
    s = re.sub(r'^\.S[HS]\s+(.*)$', r'\n\1', s, flags=re.M)
    return re.sub(r'\n{3,}', '\n\n', re.sub(r'^\.TH (\S+).*$', r'\1 manual', s, flags=re.M))


def documents(tree):
    """(kind, path, text) of the documentation files, in an order that depends on their names alone."""
    files = sorted((os.path.relpath(os.path.join(d, f), tree) for d, _, fs in os.walk(tree) for f in fs),
                   key=lambda p: hashlib.sha1(p.encode()).digest())
    for path in files:
        full = os.path.join(tree, path)
        if os.path.islink(full):
            continue
        opened = lambda: gzip.open(full, 'rt', encoding='utf8', errors='replace') if path.endswith('.gz') else \
            open(full, encoding='utf8', errors='replace')
        try:
            if path.endswith('.html') and not re.search(r'genindex|searchindex|changelog|/vim|index-\d|debian-handbook/html/(?!en-US)', path):
                yield 'html', path, from_html(opened().read())
            elif re.search(r'share/man/man\d/.*\.gz$', path):
                yield 'man', path, from_man(opened().read())
            elif re.search(r'\.(txt|rst|pod)(\.gz)?$', path):
                yield 'txt', path, opened().read()
            elif re.search(r'(foldoc|jargon)\.dict\.dz$', path):
                yield 'dict', path, gzip.open(full, 'rt', encoding='utf8', errors='replace').read()
        except (OSError, EOFError):
            pass


def plain(sources, out, budget):
    """Pieces of at most 6,000 characters; files whose hash says so are held out for perplexity."""
    held, used = [], collections.Counter()
    with open(os.path.join(out, 'plain.jsonl'), 'w', encoding='utf8') as f:
        for kind, path, text in documents(os.path.join(sources, 'tree')):
            if used[kind] > budget[kind] or sum(c.isascii() for c in text) < .97 * len(text):
                continue
            text = text.strip()
            if kind != 'dict' and hashlib.sha1(path.encode()).digest()[19] < 3:
                held.append(text[:6000])
                continue
            text = text[:int(budget[kind] - used[kind]) + 6000]
            used[kind] += len(text)
            for i in range(0, len(text), 6000):
                if len(text[i:i + 6000]) > 200:
                    f.write(json.dumps(text[i:i + 6000]) + '\n')
    with open(os.path.join(out, 'heldout.txt'), 'w', encoding='utf8') as f:
        f.write('\n\n'.join(held)[:200000])
    print('plain text:', dict(used), 'held out:', sum(map(len, held)))


def main():
    sources, program, out = sys.argv[1:4]
    os.makedirs(out, exist_ok=True)
    facts = foretoken(program)
    facts["tldr"], facts["other commands"] = tldr(sources)
    facts["wordnet"] = wordnet(os.path.join(sources, 'tree', 'usr', 'share', 'wordnet'))
    with open(os.path.join(sources, 'gsm8k', 'train.jsonl'), encoding='utf8') as f:
        facts["word problems"] = [json.loads(x)["question"] for x in f]
    with open(os.path.join(sources, 'gsm8k', 'test.jsonl'), encoding='utf8') as f:
        facts["held word problems"] = [json.loads(x)["question"] for x in f][:300]
    with open(os.path.join(out, 'facts.json'), 'w', encoding='utf8') as f:
        json.dump(facts, f)
    print({k: len(v) for k, v in facts.items()})
    plain(sources, out, {'html': 22e6, 'man': 10e6, 'txt': 10e6, 'dict': 5e6})


if __name__ == '__main__':
    main()
