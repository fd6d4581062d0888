# Completion of holdfast-cc and holdfast-c++ for fish: the compiler itself says what there is, ours and Clang's.
function __holdfast_cc_words
    set -l word (commandline -ct)
    set -l parts (string split -m 1 = -- $word)
    if string match -q -- '-fnvm-unsafe=*' $word
        for file in (__fish_complete_path "$parts[2]" | string replace -r '\t.*' '')
            echo "-fnvm-unsafe=$file"
        end
    else if set -q parts[2]
        for value in ($argv[1] --autocomplete="$parts[1]=,$parts[2]" 2>/dev/null)
            echo "$parts[1]=$value"
        end
    else
        $argv[1] --autocomplete="$word" 2>/dev/null
    end
end
for program in holdfast-cc holdfast-c++
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -f -a "(__holdfast_cc_words $program)"
end
