#compdef omn
# zsh completion for omn: omn itself is asked what could stand where the cursor is.
_omn() {
    local -a values shown given
    local kind value meaning
    local -i place=${words[(i)--]}
    if (( place < CURRENT )) && [[ ${words[2]} != completion ]]; then
        # Everything behind it is the program's command line.
        shift $place words
        (( CURRENT -= place ))
        _normal -p omn
        return
    fi
    given=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    while IFS=$'\t' read -r kind value meaning; do
        case $kind in
            file) _files ;;
            dir) _files -/ ;;
            plain)
                values+=("$value")
                shown+=("$value${meaning:+  -- $meaning}")
                ;;
        esac
    done < <("${(Q)words[1]}" completion zsh -- "${given[@]}" 2>/dev/null)
    (( ${#values} )) && compadd -l -d shown -a values
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _omn "$@"
else
    compdef _omn omn
fi
