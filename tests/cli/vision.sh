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

model_of() { # folder
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
finish
