#!/usr/bin/env bash
# Images through the whole program: the golden models become GGUF files with a vocabulary in which
# every id has a text, and `run --image` must give the reference's ids, PNG file to text.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
build=${BUILD:-build} gold=tests/golden-vision

array() { # folder key: the numbers of an array in ref.json
    sed -n "s/.*\"$2\": \[\([0-9, ]*\)\].*/\1/p" "$gold/$1/ref.json" | head -n 1 | tr -d ' '
}
number() { # folder key: one number of config.json
    sed -n "s/.*\"$2\": *\([0-9]*\).*/\1/p" "$gold/$1/config.json" | head -n 1
}
name_of() { # id: as the vocabulary spells it
    if [ "$1" = "$pad" ]; then echo "$pad_name"
    elif [ "$1" = "$begin" ]; then echo "$begin_name"
    elif [ "$1" = "$end" ]; then echo "$end_name"
    else echo "<$1>"; fi
}
# A tokenizer in which every id is a special token of its own.
vocabulary() { # folder size
    local i
    {
        printf '{"added_tokens": ['
        for ((i = 0; i < $2; i++)); do
            [ "$i" -gt 0 ] && printf ','
            printf '{"id": %d, "content": "%s", "special": true}' "$i" "$(name_of "$i")"
        done
        printf '], "normalizer": %s, "pre_tokenizer": %s, ' "$norm" "$split"
        printf '"model": {"type": "BPE", "byte_fallback": %s, "vocab": {}, "merges": []}}\n' "$fallback"
    } >"$1/tokenizer.json"
    printf '{"chat_template": "{%%- for m in messages -%%}{%%- for p in m.content -%%}{%%- if p.type == %s -%%}%s{%%- else -%%}{{ p.text }}{%%- endif -%%}{%%- endfor -%%}{%%- endfor -%%}"}\n' \
        "'image'" "$mark" >"$1/tokenizer_config.json"
}
# The prompt as text: one placeholder for each image.
prompt_of() { # folder
    local id last='' out=''
    for id in $(array "$1" prompt | tr ',' ' '); do
        if [ "$id" = "$pad" ] && [ "$last" = "$pad" ]; then continue; fi
        last=$id
        if [ "$wraps" = 1 ] && { [ "$id" = "$begin" ] || [ "$id" = "$end" ]; }; then continue; fi
        out+=$(name_of "$id")
    done
    echo "$out"
}

names_of() { # folder: what its vocabulary calls the tokens of images
    pad=$(number "$1" image_token_id)
    case $1 in
    qwen*)
        begin=$(number "$1" vision_start_token_id) end=$(number "$1" vision_end_token_id) wraps=0
        pad_name='<|image_pad|>' begin_name='<|vision_start|>' end_name='<|vision_end|>'
        split=$(sed -n 's/.*"pre_tokenizer":\({.*}\),"post_processor".*/\1/p' tests/data/tokenizer/bytes.json)
        norm='{"type": "NFC"}' fallback=false mark="$begin_name$pad_name$end_name"
        ;;
    *)
        begin=$(number "$1" boi_token_id) end=$(number "$1" eoi_token_id) wraps=1
        pad_name='<|image|>' begin_name='<|image>' end_name='<image|>'
        split='null' fallback=true mark=$pad_name
        norm='{"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}'
        ;;
    esac
}
model_of() { # folder
    names_of "$1"
    "$build/tests/golden" --folder "$dir/$1" "$gold/$1" || exit 1
    vocabulary "$dir/$1" "$(number "$1" vocab_size)"
    mkdir -p "$dir/$1/gguf"
    "$ft" convert "$dir/$1" "$dir/$1/gguf/m.gguf" -q || exit 1
    own_bos "$1"
}
# The reference's prompts have no BOS, which Gemma's always get unless they begin with it: their
# first token becomes the BOS, whose id stands behind the name and type of its key.
own_bos() { # folder
    local key=tokenizer.ggml.bos_token_id file=$dir/$1/gguf/m.gguf at first
    at=$(grep -abo "$key" "$file" | head -n 1 | cut -d: -f1)
    first=$(array "$1" prompt | cut -d, -f1)
    [ -n "$at" ] || return 0
    printf '%b' "\\x$(printf '%02x' $((first % 256)))\\x$(printf '%02x' $((first / 256)))" |
        dd of="$file" bs=1 seek=$((at + ${#key} + 4)) conv=notrunc status=none
}

mark_qwen='<|vision_start|><|image_pad|><|vision_end|>'
for folder in qwen35-vision qwen35-vision-two gemma4-vision-dense gemma4-vision-edge; do
    model_of "$folder"
    images=()
    for f in "$gold/$folder"/image*.png; do images+=(--image "$f"); done
    want="[$(array "$folder" greedy)]"
    for extra in "" "--draft-max 0" "--batch-size 64" "--draft-max 2"; do
        # shellcheck disable=SC2086
        got=$("$ft" run -m "$dir/$folder/gguf/m.gguf" --device cpu -ctk f32 -ctv f32 --temp 0 -n 8 --json \
            --ignore-eos --raw "${images[@]}" $extra "$(prompt_of "$folder")" 2>"$dir/.err" |
            sed -n 's/.*"ids":\(\[[0-9,]*\]\).*/\1/p')
        [ "$got" = "$want" ]
        ok "$folder ${extra:-plain}: $got" $?
        [ "$got" = "$want" ] || { echo "want $want"; cat "$dir/.err"; }
    done
done

# ---- what is said and refused ----
m=$dir/qwen35-vision/gguf/m.gguf eye=$dir/qwen35-vision/gguf/mmproj-m.gguf pic=$gold/qwen35-vision/image0.png
one='<377><|vision_start|><|image_pad|><|vision_end|><358>'
see() { "$ft" run -m "$m" --device cpu --temp 0 -n 2 -q "$@"; }
"$ft" run -m "$m" --device cpu --temp 0 -n 2 --json --image "$pic" '<377><358>' |
    grep -q '"prompt_tokens":20,' # 16 and 2 for the image, 2 of the text
ok "the template places an image before the text" $?
fails "no tower" "no vision tower" see --no-mmproj --raw --image "$pic" "$one"
fails "both" "want one of them" see --no-mmproj --mmproj "$eye" --raw "$one"
fails "a tower as the model" 'general.type is "mmproj"' "$ft" run -m "$eye" -q x
fails "another model's tower" "width 320, this one has 256" \
    see --mmproj "$dir/gemma4-vision-dense/gguf/mmproj-m.gguf" --raw "$one"
fails "another family's tower" "was made for another model" \
    see --mmproj "$dir/gemma4-vision-edge/gguf/mmproj-m.gguf" --raw "$one"
fails "a model as the tower" "not a vision tower" see --mmproj "$m" --raw "$one"
fails "two images, one place" "1 image placeholders for 2 images" \
    see --raw --image "$pic" --image "$pic" "$one"
fails "an image without a place" "0 image placeholders for 1 images" see --raw --image "$pic" '<1><2>'
head -c 5000 "$pic" >"$dir/cut.png"
fails "half an image" "image 1: PNG: the data ends too early" see --raw --image "$dir/cut.png" "$one"
fails "no image" "image 1: unknown image format" see --raw --image "$0" "$one"
fails "no such file" "nothing.png" see --raw --image "$dir/nothing.png" "$one"
printf '\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\x2c\0\0\0\x01\x08\0\0\0\0\x41\x53\xcc\xf5\0\0\0\x0dIDAT\x78\x9c\x63\x60\x18\x05\x44\x03\0\x01\x2d\0\x01\x45\x02\x95\x4e\0\0\0\0IEND\xae\x42\x60\x82' >"$dir/thin.png" # 300 x 1
fails "wider than high" "more than 200 times" see --raw --image "$dir/thin.png" "$one"
works "fewer tokens" see --image-max-tokens 4 --raw --image "$pic" "$one"
works "a background" see --image-background ff8000 --raw --image "$pic" "$one"
fails "a wrong background" "want RRGGBB" see --image-background ff800 --raw --image "$pic" "$one"

# ---- placeholders that a user types, and conversations, with models that know letters ----
mkdir -p "$dir/q" "$dir/g"
"$ft" synth micro q8_0 "$dir/q/m.gguf" -q && "$ft" synth micro-mmproj f16 "$dir/q/mmproj.gguf" -q &&
    "$ft" synth micro-gemma q8_0 "$dir/g/m.gguf" -q && "$ft" synth micro-gemma-mmproj f16 "$dir/g/mmproj.gguf" -q
ok "models with towers" $?
count() { # folder prompt options: its prompt tokens
    "$ft" run -m "$dir/$1/m.gguf" --device cpu --temp 0 -n 1 --json "${@:3}" "$2" 2>&1 | sed -n 's/.*"prompt_tokens":\([0-9]*\).*/\1/p'
}
for who in "q <|image_pad|>" "g <|image|>"; do
    typed=${who#* } who=${who%% *}
    plain=$(count "$who" 'a b') with=$(count "$who" 'a b' --image "$pic")
    [ "$(count "$who" "a $typed b")" -gt "$((plain + 4))" ]
    ok "$typed in a prompt is text" $?
    [ "$(count "$who" "a $typed b" --image "$pic")" -gt "$((with + 4))" ]
    ok "$typed beside an image is text" $?
done
# of several towers, the one that is named after the model
mkdir "$dir/two"
ln "$dir/q/m.gguf" "$dir/two/m.gguf"
ln "$dir/g/m.gguf" "$dir/two/other.gguf"
ln "$dir/q/mmproj.gguf" "$dir/two/mmproj-m.gguf"
ln "$dir/g/mmproj.gguf" "$dir/two/mmproj-other.gguf"
same "a tower named after its model" "$(count two 'a b' --image "$pic")" "$(count q 'a b' --image "$pic")"
mv "$dir/two/mmproj-m.gguf" "$dir/two/m.mmproj-f16.gguf"
"$ft" run -m "$dir/two/m.gguf" --device cpu -n 1 'a b' 2>&1 >"$dir/.out" | grep -q '2 files \*mmproj\*.gguf beside the model'
ok "two towers of other names" $?
rm "$dir/two/mmproj-other.gguf"
same "a tower with another place for mmproj" "$(count two 'a b' --image "$pic")" "$(count q 'a b' --image "$pic")"
talk() { "$ft" chat -m "$dir/q/m.gguf" --device cpu --temp 0 -n 4 "$@" 2>"$dir/.err"; }
printf '/image %s\none\n/image %s\ntwo\n/save %s\n' "$pic" "$pic" "$dir/a.json" | talk >/dev/null
ok "/image" $?
same "two messages with images" "$(grep -c '"path"' "$dir/a.json")" 2
printf '/load %s\nthree\n/undo\n/undo\n/save %s\n' "$dir/a.json" "$dir/b.json" | talk >/dev/null
ok "a saved conversation with images goes on" $?
same "/undo removes images" "$(grep -c '"path"' "$dir/b.json")" 1
printf '/image %s/nothing.png\n' "$dir" | talk >/dev/null
[ $? -eq 1 ] && grep -q "nothing.png" "$dir/.err"
ok "/image of no file" $?
printf '/image %s\n' "$0" | talk >/dev/null
[ $? -eq 1 ] && grep -q "unknown image format" "$dir/.err"
ok "/image of no image" $?
printf '/image %s\n' "$pic" | talk --no-mmproj >/dev/null
[ $? -eq 1 ] && grep -q "no vision tower" "$dir/.err"
ok "/image without a tower" $?

# ---- the server ----
if ! "$ft" --version | grep -q microhttpd || ! command -v curl >/dev/null; then finish; exit; fi
serve -m "$m" --device cpu -c 512 -n 8 -ctk f32 -ctv f32
data=$(base64 -w0 "$pic")
ask() { printf '%s' "$2" | curl -s -m 60 "$url$1" -H 'content-type: application/json' -d @-; }
has() { # name pattern path body
    local out
    out=$(ask "$3" "$4")
    grep -q -- "$2" <<<"$out"
    local st=$?
    [ $st -eq 0 ] || head -c 400 <<<"  $out"
    ok "$1" $st
}
names_of qwen35-vision
text=$(prompt_of qwen35-vision)
marked=${text/"$mark_qwen"/<__media__>}
want="[$(array qwen35-vision greedy)]"
body="{\"prompt\":{\"prompt_string\":\"$marked\",\"multimodal_data\":[\"$data\"]},\"ignore_eos\":true,\"return_tokens\":true}"
has "completion: the reference's ids" "\"tokens\":\[$(array qwen35-vision greedy)\]" /completion "$body"
has "again, from the cache" "\"tokens\":\[$(array qwen35-vision greedy)\]" /completion "$body"
user() { printf '{"messages":[{"role":"user","content":%s}],"max_tokens":2}' "$1"; }
uri="data:image/png;base64,$data" words='{"type":"text","text":"<377><358>"}'
has "chat: image_url" '"prompt_tokens":20' /v1/chat/completions \
    "$(user "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"$uri\"}},$words]")"
has "chat: a plain string" '"prompt_tokens":20' /v1/chat/completions \
    "$(user "[{\"type\":\"image_url\",\"image_url\":\"$uri\"},$words]")"
has "chat: two images" '"prompt_tokens":38' /v1/chat/completions \
    "$(user "[{\"type\":\"image_url\",\"image_url\":\"$uri\"},$words,{\"type\":\"image_url\",\"image_url\":\"$data\"}]")"
has "responses: input_image" '"input_tokens":20' /v1/responses \
    "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":\"$uri\"},{\"type\":\"input_text\",\"text\":\"<377><358>\"}]}],\"max_output_tokens\":2}"
block="{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"$data\"}}"
has "anthropic: image" '"input_tokens":20' /v1/messages "$(user "[$block,$words]")"
has "anthropic: counted" '"input_tokens":20' /v1/messages/count_tokens "$(user "[$block,$words]")"
has "ollama: images" '"prompt_eval_count":20' /api/chat \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"<377><358>\",\"images\":[\"$data\"]}],\"stream\":false,\"options\":{\"num_predict\":2}}"
has "ollama: generate" '"prompt_eval_count":20' /api/generate \
    "{\"prompt\":\"<377><358>\",\"images\":[\"$data\"],\"stream\":false,\"options\":{\"num_predict\":2}}"
curl -s "$url/props" | grep -q '"vision":true'
ok "props: vision" $?
has "an address is refused" 'content\[0\] is the address of an image' /v1/chat/completions \
    "$(user '[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]')"
has "bad base64" 'content\[1\]: bad base64' /v1/chat/completions \
    "$(user "[$words,{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,@@@@\"}}]")"
has "no image" 'unknown image format' /v1/chat/completions \
    "$(user '[{"type":"image_url","image_url":{"url":"aGVsbG8gd29ybGQ="}}]')"
has "a broken image" 'the data ends too early' /v1/chat/completions \
    "$(user "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"$(base64 -w0 "$dir/cut.png")\"}}]")"
has "more markers than images" 'placeholders for 1 images' /completion \
    "{\"prompt\":{\"prompt_string\":\"<__media__><__media__>\",\"multimodal_data\":[\"$data\"]}}"
curl -s "$url/v1/models" | grep -q '"multimodal"'
ok "models: multimodal" $?
curl -s "$url/api/show" -d '{}' | grep -q '"vision"'
ok "ollama: vision" $?
kill -TERM $pid
wait $pid
ok "it ends" $?

# ---- addresses, and texts that look like placeholders ----
serve -m "$dir/q/m.gguf" --device cpu -c 512 -n 8 --allow-image-urls any
place='<|vision_start|><|image_pad|><|vision_end|>'
has "a typed placeholder" "\"prompt_tokens\":$(($(count q "a $place b") - $(count q a) + $(count q a --image "$pic")))" \
    /v1/chat/completions \
    "$(user "[{\"type\":\"image_url\",\"image_url\":\"$uri\"},{\"type\":\"text\",\"text\":\"a $place b\"}]")"
has "as it was typed" "a $place b<|im_end|>" /apply-template "$(user "\"a $place b\"")"
if "$ft" --version | grep -q curl; then
    for address in "http://127.0.0.1:1/a.png" "http://localhost:1/a.png" "HTTP://[::1]:1/a.png"; do
        has "$address" 'content\[0\]: .*private or local address' /v1/chat/completions \
            "$(user "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"$address\"}}]")"
    done
fi
has "a file" 'content\[0\] is the address of a file.*--media-path' /v1/chat/completions \
    "$(user '[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]')"
kill -TERM $pid
wait $pid
ok "it ends" $?

# ---- files of one folder ----
mkdir -p "$dir/media/more"
cp "$pic" "$dir/media/a.png"
cp "$pic" "$dir/media/more/b.png"
cp "$pic" "$dir/outside.png"
ln -s ../outside.png "$dir/media/link.png"
ln -s .. "$dir/media/up"
mkfifo "$dir/media/pipe"
serve -m "$dir/q/m.gguf" --device cpu -c 512 -n 8 --media-path "$dir/media"
file() { user "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"file://$1\"}},{\"type\":\"text\",\"text\":\"a\"}]"; }
for name in a.png /a.png more/b.png //more//b.png ./a.png; do
    has "file://$name" "\"prompt_tokens\":$(count q a --image "$pic")" /v1/chat/completions "$(file "$name")"
done
has "above the folder" 'has .*\.\..*want a file below' /v1/chat/completions "$(file "../outside.png")"
has "up and down" 'has .*\.\..*want a file below' /v1/chat/completions "$(file "more/../../outside.png")"
has "a link out" 'symbolic link' /v1/chat/completions "$(file link.png)"
has "through a link" 'outside.png' /v1/chat/completions "$(file up/outside.png)"
has "no such file" 'No such file' /v1/chat/completions "$(file none.png)"
has "a folder" 'not a regular file' /v1/chat/completions "$(file more)"
has "a FIFO" 'not a regular file' /v1/chat/completions "$(file pipe)"
has "the folder itself" 'names no file' /v1/chat/completions "$(file /)"
has "still no downloads" '--allow-image-urls' /v1/chat/completions \
    "$(user '[{"type":"image_url","image_url":{"url":"http://127.0.0.1:1/a.png"}}]')"
kill -TERM $pid
wait $pid
ok "it ends" $?
finish
