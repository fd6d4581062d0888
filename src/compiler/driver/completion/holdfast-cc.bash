# Completion of holdfast-cc and holdfast-c++ for bash: the compiler itself says what there is, ours and Clang's.
# shellcheck shell=bash
_holdfast_cc() {
  local line=${COMP_LINE:0:COMP_POINT} word asked prefix='' found
  word=${line##*[[:space:]]}
  COMPREPLY=()
  # What stands before an '=' is a word of its own to the shell, unless it was told otherwise.
  if [[ $word == -*=* && $COMP_WORDBREAKS != *=* ]]; then prefix=${word%%=*}=; fi
  if [[ $word == -fnvm-unsafe=* || $word != -* ]]; then
    while IFS= read -r found; do COMPREPLY+=("$prefix$found"); done < <(compgen -f -- "${word#-fnvm-unsafe=}")
    compopt -o filenames 2>/dev/null
  else
    asked=$word
    if [[ $word == *=* ]]; then asked=${word%%=*}=,${word#*=}; fi
    while IFS=$'\t' read -r found _; do
      if [[ $found == *= ]]; then compopt -o nospace 2>/dev/null; fi
      COMPREPLY+=("$prefix$found")
    done < <("${COMP_WORDS[0]}" "--autocomplete=$asked" 2>/dev/null)
  fi
}
complete -F _holdfast_cc holdfast-cc holdfast-c++
